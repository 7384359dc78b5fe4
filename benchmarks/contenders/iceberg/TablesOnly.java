package bench;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Table;
import org.apache.iceberg.Transaction;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.hadoop.HadoopCatalog;
import org.apache.iceberg.spark.Spark3Util;
import org.apache.iceberg.spark.SparkSchemaUtil;
import org.apache.iceberg.spark.source.SparkTable;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Iceberg tables for Spark 4.3, by Iceberg's build for 4.1, whose own catalog can't be loaded there: views have become a
 * class, and a catalog that has them must be a RelationCatalog. This one has a folder of tables, and no views.
 */
public class TablesOnly implements TableCatalog, SupportsNamespaces {
  private String name;
  private HadoopCatalog tables;

  /** Iceberg calls a form of `structTypeToV2Columns` that 4.3 no longer has. */
  private static class Adapted extends SparkTable {
    Adapted(Table table) {
      super(table);
    }

    @Override
    public Column[] columns() {
      return CatalogV2Util.structTypeToV2Columns(schema(), false);
    }
  }

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
    this.tables = new HadoopCatalog(new Configuration(), options.get("warehouse"));
  }

  @Override
  public String name() {
    return name;
  }

  private static TableIdentifier known(Identifier identifier) {
    return TableIdentifier.of(Namespace.of(identifier.namespace()), identifier.name());
  }

  @Override
  public org.apache.spark.sql.connector.catalog.Table loadTable(Identifier identifier)
      throws org.apache.spark.sql.catalyst.analysis.NoSuchTableException {
    try {
      return new Adapted(tables.loadTable(known(identifier)));
    } catch (NoSuchTableException error) {
      throw new org.apache.spark.sql.catalyst.analysis.NoSuchTableException(identifier);
    }
  }

  @Override
  public org.apache.spark.sql.connector.catalog.Table createTable(Identifier identifier, TableInfo info) {
    Map<String, String> properties = new HashMap<>(info.properties());
    // What Spark says of every table is no property of Iceberg's.
    properties.keySet().removeAll(Arrays.asList("provider", "location", "owner", "external"));
    properties.put("format-version", "2");
    return new Adapted(
        tables.createTable(
            known(identifier), SparkSchemaUtil.convert(info.schema()), PartitionSpec.unpartitioned(), properties));
  }

  @Override
  public org.apache.spark.sql.connector.catalog.Table alterTable(Identifier identifier, TableChange... changes)
      throws org.apache.spark.sql.catalyst.analysis.NoSuchTableException {
    Table table = tables.loadTable(known(identifier));
    Transaction transaction = table.newTransaction();
    for (TableChange change : changes) {
      if (change instanceof TableChange.SetProperty || change instanceof TableChange.RemoveProperty) {
        Spark3Util.applyPropertyChanges(transaction.updateProperties(), Arrays.asList(change)).commit();
      } else {
        Spark3Util.applySchemaChanges(transaction.updateSchema(), Arrays.asList(change)).commit();
      }
    }
    transaction.commitTransaction();
    return loadTable(identifier);
  }

  @Override
  public Identifier[] listTables(String[] namespace) {
    return tables.listTables(Namespace.of(namespace)).stream()
        .map(one -> Identifier.of(one.namespace().levels(), one.name()))
        .toArray(Identifier[]::new);
  }

  @Override
  public boolean dropTable(Identifier identifier) {
    return tables.dropTable(known(identifier), true);
  }

  @Override
  public void renameTable(Identifier from, Identifier to) {
    throw new UnsupportedOperationException("renaming a table of a folder");
  }

  @Override
  public String[][] listNamespaces() {
    return tables.listNamespaces(Namespace.empty()).stream().map(Namespace::levels).toArray(String[][]::new);
  }

  @Override
  public String[][] listNamespaces(String[] namespace) {
    return namespace.length == 0 ? listNamespaces() : new String[0][];
  }

  @Override
  public boolean namespaceExists(String[] namespace) {
    return tables.namespaceExists(Namespace.of(namespace));
  }

  @Override
  public Map<String, String> loadNamespaceMetadata(String[] namespace) {
    return tables.loadNamespaceMetadata(Namespace.of(namespace));
  }

  @Override
  public void createNamespace(String[] namespace, Map<String, String> metadata) {
    tables.createNamespace(Namespace.of(namespace));
  }

  @Override
  public void alterNamespace(String[] namespace, NamespaceChange... changes) {
    throw new UnsupportedOperationException("changing a folder");
  }

  @Override
  public boolean dropNamespace(String[] namespace, boolean cascade) {
    return tables.dropNamespace(Namespace.of(namespace));
  }
}

"""Data Docs as pages that need no network and no script: Great Expectations' own contents in frames of ours.

Its own frames fetch styles and scripts of others, which would run beside the keys of rows, and write the list of all
pages by such a script. Those in `templates` stand in for the ones of the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from great_expectations.render.view.view import DefaultJinjaPageView
from jinja2 import ChoiceLoader, FileSystemLoader


class ResultsPage(DefaultJinjaPageView):
    """The page of one suite's results."""

    def __init__(self) -> None:
        super().__init__()
        self.env.loader = ChoiceLoader([FileSystemLoader(Path(__file__).parent / "templates"), self.env.loader])

    def render_string_template(self, template: Any) -> Any:
        """A text as HTML; without the link to the page of a suite, since none is written."""
        if isinstance(template, dict):
            template.get("styling", {}).get("params", {}).pop("expectation_suite_name", None)
        return super().render_string_template(template)


class IndexPage(ResultsPage):
    """The list of all pages; its document is what the renderer of the index was given."""

    _template = "index_page.j2"

    def _validate_document(self, document: Mapping[str, Any]) -> None:
        """Nothing to validate: the list is written by its template alone."""


class IndexContents:
    """What the index lists, as it is."""

    def render(self, links: Mapping[str, Any]) -> Mapping[str, Any]:
        """The links, by kind."""
        return links

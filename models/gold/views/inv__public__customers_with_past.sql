{{ with_past(ref('inv__public__customers_current'), ref('inv__public__customers_history'), key=['id']) }}

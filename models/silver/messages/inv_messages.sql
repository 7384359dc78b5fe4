{{ messages('inv') }}

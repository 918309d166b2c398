"""Callbacks of scikit-learn's protocol."""


class Callback:
    """Does nothing."""

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        pass


class StopAt(Callback):
    """Stops the iterations after a number of tasks; counts what it sees."""

    def __init__(self, n):
        self.n, self.setups, self.teardowns, self.begun, self.ended = n, 0, 0, 0, 0

    def setup(self, estimator, context):
        self.setups += 1

    def teardown(self, estimator, context):
        self.teardowns += 1

    def on_fit_task_begin(self, estimator, context):
        self.begun += 1

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.ended += 1
        return context.task_name == "iteration" and context.task_id + 1 >= self.n

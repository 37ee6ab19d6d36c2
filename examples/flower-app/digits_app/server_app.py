"""The server: federated averaging, and accuracy on digits that no client has."""

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from digits_app.task import HELD_OUT, accuracy, first_model, from_arrays, load_records
from fedpriv.flower import Private

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Twelve rounds of federated averaging."""
    nodes = context.run_config["num-nodes"]
    strategy = FedAvg(min_train_nodes=nodes, min_available_nodes=nodes, fraction_evaluate=0.0)
    strategy = Private(strategy, context.run_config["fedpriv.mechanism"])  # private: the clients' own mechanism
    result = strategy.start(
        grid=grid, initial_arrays=first_model(), num_rounds=context.run_config["num-server-rounds"],
        evaluate_fn=evaluate,
    )  # fmt: skip
    last = max(result.train_metrics_clientapp)
    print(f"accuracy {result.evaluate_metrics_serverapp[last]['accuracy']:.3f},", result.train_metrics_clientapp[last])


def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
    """Accuracy on the held-out digits."""
    x, y = load_records()
    return MetricRecord({"accuracy": accuracy(*from_arrays(arrays), x[-HELD_OUT:], y[-HELD_OUT:])})

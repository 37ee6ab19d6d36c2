"""The clients: each trains on its own digits and returns the model."""

from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from digits_app.task import from_arrays, load_partition, to_arrays, train
from fedpriv.flower import private

app = ClientApp(mods=[private()])  # private: mechanism and ledger are in pyproject.toml


@app.train()
def train_client(message: Message, context: Context) -> Message:
    """Some local steps from the server's model."""
    x, y = load_partition(context.node_config["partition-id"], context.node_config["num-partitions"])
    weights, bias = from_arrays(message.content["arrays"])
    steps, rate = context.run_config["local-steps"], context.run_config["learning-rate"]
    weights, bias, loss = train(weights, bias, x, y, steps, rate)
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(y)})
    return Message(RecordDict({"arrays": to_arrays(weights, bias), "metrics": metrics}), reply_to=message)

"""A client of Flower's that does nothing: it returns the arrays that came.

Without PyTorch, so that the memory measured is that of the messages.
"""

from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def _return_what_came(message: Message, context: Context) -> Message:
    arrays = message.content.array_records["arrays"]
    content = RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": 1})})
    return Message(content, reply_to=message)

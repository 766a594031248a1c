"""The client application, as Flower and `client.py` start it.

The code that answers is imported with the first message. It imports PyTorch, which takes a second;
`client.py --help` and a message about wrong settings come without that wait.
"""

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

app = ClientApp()


@app.query()
@app.train()
@app.evaluate()
def reply(message: Message, context: Context) -> Message:
    """Answer by the client's own settings; `HANDLERS` says what each kind of message gets."""
    from fl_dp.federation.client.answers import HANDLERS, answer

    return answer(message, context, HANDLERS[message.metadata.message_type.partition(".")[0]])

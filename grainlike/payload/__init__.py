"""Between a user's objects and opaque bytes: the only room that opens the door to pickle, dill and cloudpickle.

It answers: what are the bytes of these arguments, this value, this function, this exception, and what were the
objects of those bytes? It never opens a socket, never decides where bytes go, and never reads the environment.

- Values go by pickle protocol 5, large buffers apart and uncopied; what lives in `__main__`, and what pickle refuses,
  goes by cloudpickle; what both refuse is a `SerializationError` that names the argument and the object inside it.
- Functions go by reference where a fresh interpreter can import them, also when a decorator's object took their name;
  otherwise by value with dill, then with cloudpickle.
- Classes of `__main__` keep their identity: an instance or exception that comes home has the very class it left with.
- Exceptions come back as their own type with the remote traceback as their cause, or as `RemoteError`.

Loading runs code chosen by whoever made the bytes: load only what an authenticated peer sent. dill and cloudpickle
are imported when first needed, never before. Neighbours: `errors` below; `graph` and `wire` are strangers.
"""

from ._errors import RemoteTraceback, dump_error, load_error
from ._functions import FunctionBlob, Serializer, dump_function, load_function
from ._payload import Payload
from ._values import dump_arguments, dump_value, load_arguments, load_value

__all__ = [
    "FunctionBlob",
    "Payload",
    "RemoteTraceback",
    "Serializer",
    "dump_arguments",
    "dump_error",
    "dump_function",
    "dump_value",
    "load_arguments",
    "load_error",
    "load_function",
    "load_value",
]

"""A fresh interpreter on the other end of a pipe, for the journeys and their tests."""

import pickle
import subprocess
import sys

from grainlike.payload import (
    Payload,
    dump_arguments,
    dump_error,
    dump_function,
    dump_value,
    load_arguments,
    load_error,
    load_function,
    load_value,
)


class Far:
    """Calls functions in a fresh interpreter."""

    def __init__(self):
        command = [sys.executable, "-c", "import far; far.serve()"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def call(self, function, *args, serializer="dill", **kwargs):
        arguments = dump_arguments(args, kwargs, what="f")
        message = (
            dump_function(function, serializer).data,
            (arguments.data, tuple(map(bytes, arguments.buffers))),
        )
        pickle.dump(message, self.process.stdin)
        self.process.stdin.flush()
        succeeded, data, buffers = pickle.load(self.process.stdout)
        if succeeded:
            return load_value(Payload(data, buffers))
        raise load_error(Payload(data, buffers), "note of the worker")

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def serve():
    while True:
        try:
            function, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            args, kwargs = load_arguments(Payload(*arguments))
            succeeded, answer = True, dump_value(load_function(function)(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001
            succeeded, answer = False, dump_error(error)
        pickle.dump((succeeded, answer.data, tuple(map(bytes, answer.buffers))), sys.stdout.buffer)
        sys.stdout.buffer.flush()


def loaded(*names):
    """Which of these modules this process has."""
    return [name for name in names if name in sys.modules]

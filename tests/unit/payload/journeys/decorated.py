"""An importable module whose functions are hidden behind decorators' objects."""

import functools

STATE = {"imports": "once"}


class Wrapper:
    """What `delayed` leaves in the place of a function."""

    def __init__(self, function):
        functools.update_wrapper(self, function)

    def __get__(self, instance, owner=None):
        return functools.partial(self.__wrapped__, *([] if instance is None else [instance]))

    def __reduce__(self):
        return Wrapper, (self.__wrapped__,)


def shouting(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args).upper()

    return wrapper


@Wrapper
def state():
    return STATE is __import__("decorated").STATE


@Wrapper
@shouting
def shout(text):
    return text


@Wrapper
async def waits(x):
    return x


class Holder:
    @Wrapper
    def method(self, x):
        return type(self).__name__, x


class Needy(Exception):
    def __init__(self, code, reason):
        super().__init__(f"{reason} ({code})")
        self.code = code


def plain(x):
    return x + 1

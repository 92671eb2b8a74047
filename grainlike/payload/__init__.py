"""User's objects to bytes and back: the only room that uses pickle, dill and cloudpickle.

The room turns arguments, values, functions and exceptions into bytes, and bytes into objects. It never opens a socket,
never decides where bytes go, and never reads the environment.

- Values go by pickle protocol 5, with large buffers outside the stream, uncopied. Objects of `__main__`, and objects
  that pickle refuses, go by cloudpickle. If both fail, a `SerializationError` names the argument and the object in it.
- Functions go by name if a fresh interpreter can import them, even if a decorator's object has their name. Other
  functions go by value with dill, then with cloudpickle.
- Classes of `__main__` keep their identity: an object that comes home has the class with which it left.
- A part that a process on the way could not hold is replaced by a `stand_in`; loading it raises an error that says so.
- A value that stays where it was made is a file of its own (`write_replica`), and travels as a reference.
- Exceptions come back as their own type, or as `RemoteError`. Their causes do, too; the remote traceback is the first.

Loading runs code that the sender of the bytes has chosen: load only bytes of an authenticated peer. dill and
cloudpickle are imported when they are first needed, never before. The room imports `errors`, but neither `graph` nor
`wire`.
"""

from typing import TYPE_CHECKING

from grainlike._later import later
from grainlike.payload._chain import PREVIOUS, dump_arguments_before, load_arguments_after, name_function
from grainlike.payload._errors import (
    RemoteTraceback,
    dump_error,
    load_error,
    message_of_error,
    noted_error,
    told_of_error,
    traceback_of_error,
)
from grainlike.payload._functions import FunctionBlob, Serializer, dump_function, load_function
from grainlike.payload._mapping import private_map
from grainlike.payload._payload import Buffer, Payload
from grainlike.payload._plain_reader import plain_arguments
from grainlike.payload._references import (
    Reference,
    ReferencedValues,
    applied,
    buffer_reference,
    collecting,
    resolving,
)
from grainlike.payload._replicas import (
    STAY_BYTES,
    ArrivingReplica,
    ReplicaBytes,
    arriving_replica,
    map_replica,
    replica_file,
    replica_name,
    replica_parts,
    replica_path,
    replica_payload,
    replica_size,
    write_replica,
)
from grainlike.payload._scratch import (
    ReplicaSource,
    allocate_replica,
    check_replica,
    copy_replica,
    crc_of_file,
    hold_memory,
    is_held,
    is_on_disk,
    open_replica,
    open_room,
    remove_replica,
    replica_room,
    seal_held,
    seal_replica,
)
from grainlike.payload._shared import SHARED_LEAST, SharedBuffers, SharedCopies, have_same_bytes, place_of
from grainlike.payload._shared_directory import (
    SPARE_LEAST,
    SharedDirectory,
    SpareFiles,
    is_memory_small,
    is_shared_directory,
    memory_id,
)
from grainlike.payload._store import MARK, Store, drop, is_stored, know, mapped, stored_bytes
from grainlike.payload._too_large import stand_in
from grainlike.payload._values import (
    dump_arguments,
    dump_plain_arguments,
    dump_plain_columns,
    dump_plain_value,
    dump_value,
    load_arguments,
    load_plain_values,
    load_value,
    load_values,
)
from grainlike.payload._versions import serializer_versions
from grainlike.payload.ahead._arguments import AppliedStep, Awaited, StepResult, dump_arguments_ahead, fill_arguments
from grainlike.payload.ahead._enclosed import enclose_values

if TYPE_CHECKING:
    from grainlike.payload._identity import identity_of

__all__ = [
    "MARK",
    "PREVIOUS",
    "SHARED_LEAST",
    "SPARE_LEAST",
    "STAY_BYTES",
    "AppliedStep",
    "ArrivingReplica",
    "Awaited",
    "Buffer",
    "FunctionBlob",
    "Payload",
    "Reference",
    "ReferencedValues",
    "RemoteTraceback",
    "ReplicaBytes",
    "ReplicaSource",
    "Serializer",
    "SharedBuffers",
    "SharedCopies",
    "SharedDirectory",
    "SpareFiles",
    "StepResult",
    "Store",
    "allocate_replica",
    "applied",
    "arriving_replica",
    "buffer_reference",
    "check_replica",
    "collecting",
    "copy_replica",
    "crc_of_file",
    "drop",
    "dump_arguments",
    "dump_arguments_ahead",
    "dump_arguments_before",
    "dump_error",
    "dump_function",
    "dump_plain_arguments",
    "dump_plain_columns",
    "dump_plain_value",
    "dump_value",
    "enclose_values",
    "fill_arguments",
    "have_same_bytes",
    "hold_memory",
    "identity_of",
    "is_held",
    "is_memory_small",
    "is_on_disk",
    "is_shared_directory",
    "is_stored",
    "know",
    "load_arguments",
    "load_arguments_after",
    "load_error",
    "load_function",
    "load_plain_values",
    "load_value",
    "load_values",
    "map_replica",
    "mapped",
    "memory_id",
    "message_of_error",
    "name_function",
    "noted_error",
    "open_replica",
    "open_room",
    "place_of",
    "plain_arguments",
    "private_map",
    "remove_replica",
    "replica_file",
    "replica_name",
    "replica_parts",
    "replica_path",
    "replica_payload",
    "replica_room",
    "replica_size",
    "resolving",
    "seal_held",
    "seal_replica",
    "serializer_versions",
    "stand_in",
    "stored_bytes",
    "told_of_error",
    "traceback_of_error",
    "write_replica",
]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(__name__, {"identity_of": "_identity"})

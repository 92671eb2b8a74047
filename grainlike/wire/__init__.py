"""What two processes of one cluster say to each other, byte for byte.

Answers: which messages exist (`_messages`), how many payloads share one message (`_payloads`), how a message and its
buffers become bytes and back (`_frames`), how the two ends of a new connection come to trust each other
(`_handshake`). Everything here is sans-io: bytes in, messages out, no clock, no socket, no dice. A peer written in
another language would have to agree with this room alone.

Never looks inside a payload: arguments, results and functions are opaque bytes. Neighbours: `payload` makes those
bytes, `net` carries frames, `scheduler` decides what is said.
"""

from grainlike.wire._frames import (
    AUTHENTICATED,
    UNAUTHENTICATED,
    Buffer,
    Frame,
    FrameDecoder,
    FrameLimits,
    encode_frame,
)
from grainlike.wire._handshake import (
    PROTOCOL,
    Dialer,
    Listener,
    Software,
)
from grainlike.wire._messages import (
    Assign,
    Beat,
    Cancel,
    Challenge,
    ClassSpec,
    Code,
    Completed,
    Define,
    FunctionSpec,
    Hello,
    LeaseStart,
    Leaving,
    Message,
    Proof,
    ReceiptSpec,
    Refused,
    Report,
    Retract,
    Run,
    Setup,
    Stop,
    Welcome,
)
from grainlike.wire._payloads import BATCH_BYTES, BUFFER_COUNTS, Parcel, pack_parcels, unpack_parcels

__all__ = [
    "AUTHENTICATED",
    "BATCH_BYTES",
    "BUFFER_COUNTS",
    "PROTOCOL",
    "UNAUTHENTICATED",
    "Assign",
    "Beat",
    "Buffer",
    "Cancel",
    "Challenge",
    "ClassSpec",
    "Code",
    "Completed",
    "Define",
    "Dialer",
    "Frame",
    "FrameDecoder",
    "FrameLimits",
    "FunctionSpec",
    "Hello",
    "LeaseStart",
    "Leaving",
    "Listener",
    "Message",
    "Parcel",
    "Proof",
    "ReceiptSpec",
    "Refused",
    "Report",
    "Retract",
    "Run",
    "Setup",
    "Software",
    "Stop",
    "Welcome",
    "encode_frame",
    "pack_parcels",
    "unpack_parcels",
]

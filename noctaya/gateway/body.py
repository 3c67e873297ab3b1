"""A request's body: read within bounds, and what a gateway wants of it, `model` and `stream`, in one pass; the rest stays bytes."""

from collections.abc import AsyncIterator, Callable

import msgspec

from noctaya.gateway import openai_errors


class Envelope(msgspec.Struct):
    """The two fields of an OpenAI request that decide where it goes and how it is held."""

    model: str | None = None
    stream: bool | None = None


async def collect(chunks: AsyncIterator[bytes], limit: int, grow: Callable[[int], None]) -> bytes:
    """Read a body; `grow` is told its size so far and may refuse to go on.

    One buffer is grown: a list of the pieces that a client chose to send would take many times the memory that is counted.

    Raises:
        Refusal: 413 beyond `limit` bytes, or whatever `grow` raises.
    """
    body = bytearray()
    async for piece in chunks:
        if len(body) + len(piece) > limit:
            raise openai_errors.body_too_large(limit)
        grow(len(body) + len(piece))
        body += piece
    return bytes(body)


_decoder = msgspec.json.Decoder(Envelope)
_raw_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


def is_json(content_type: str) -> bool:
    """True when a body of this type must be JSON; without a type it is taken for JSON, as the engines do."""
    kind = content_type.partition(";")[0].strip().lower()
    return not kind or kind == openai_errors.JSON or kind.endswith("+json")


def scan(body: bytes) -> Envelope:
    """Read the envelope.

    Raises:
        Refusal: 400 when the body is not a JSON object or one of the two fields has the wrong type.
    """
    try:
        return _decoder.decode(body)
    except msgspec.ValidationError as error:
        raise openai_errors.bad_json(str(error).rstrip(".")) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise openai_errors.bad_json(str(error).rstrip(".")) from error
    except RecursionError as error:
        raise openai_errors.bad_json("it is nested too deeply") from error


def with_model(body: bytes, model: str) -> bytes:
    """The same JSON object with another `model`; every other value stays byte for byte."""
    fields = _raw_decoder.decode(body)
    fields["model"] = msgspec.Raw(msgspec.json.encode(model))
    return msgspec.json.encode(fields)

"""What a gateway reads of a request's body: `model` and `stream`, in one bounded pass; the rest stays bytes."""

import msgspec

from noctaya.gateway import openai_errors


class Envelope(msgspec.Struct):
    """The two fields of an OpenAI request that decide where it goes and how it is held."""

    model: str | None = None
    stream: bool | None = None


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


def with_model(body: bytes, model: str) -> bytes:
    """The same JSON object with another `model`; every other value stays byte for byte."""
    fields = _raw_decoder.decode(body)
    fields["model"] = msgspec.Raw(msgspec.json.encode(model))
    return msgspec.json.encode(fields)

"""protobuf_fields.py - protobuf messages without their descriptions: what lies in the bytes, by field number."""


def fields(message):
    """A message's fields as (number, bytes or int)."""
    at = 0

    def number():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(message):
        tag = number()
        if tag & 7 == 2:
            size = number()
            assert at + size <= len(message)
            yield tag >> 3, message[at:at + size]
            at += size
        else:
            assert tag & 7 == 0, tag
            yield tag >> 3, number()

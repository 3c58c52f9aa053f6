#ifndef LK_IO_S3_XML_H
#define LK_IO_S3_XML_H
/*
 * s3_xml.h - the XML of S3's answers, element by element: no attributes, no DTD, no entities but the five and
 * character numbers. The bytes are a server's, so anything else ends the reading with `broken`.
 * Invariant: no byte outside `text` is looked at; depth is bounded. Threads: confined.
 */
#include "base/arena.h"
#include "base/bytes.h"

typedef enum lk_xml_event { LK_XML_OPEN, LK_XML_TEXT, LK_XML_CLOSE, LK_XML_END, LK_XML_BROKEN } lk_xml_event;

enum { LK_XML_DEPTH_MAX = 16 };

typedef struct lk_xml {
    lk_bytes text;
    size_t   at;
    lk_bytes
           value; /* OPEN and CLOSE: the element's name, borrowed; TEXT: its text, in the arena, unescaped */
    size_t depth; /* elements open after this event */
    bool   closes_empty; /* <a/>: a CLOSE follows */
    lk_bytes open[LK_XML_DEPTH_MAX];
} lk_xml;

lk_xml       lk_xml_of(lk_bytes text);
lk_xml_event lk_xml_next(lk_xml *xml, lk_arena *arena);

/* The text of the first element of this name, wherever it is; "" when there is none. */
lk_bytes lk_xml_find(lk_bytes text, const char *name, lk_arena *arena);

/* Appends text with what XML reserves escaped. False: it holds a character that XML cannot carry. */
bool lk_xml_escape(lk_buf *out, lk_bytes text);

#endif

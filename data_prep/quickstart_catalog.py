"""The quickstart's tools, with typed inputs and outputs, and the tool graph that follows from them.

The rule: there is an edge a→b when an output of a has the semantic type of an input of b and a ≠ b.
Nothing else makes an edge. Knows nothing of requests.
"""

from typing import Any

from graft_jax.catalog.catalog import Catalog, Tool

TYPE_KEY = "x-semantic-type"

# What flows from tool to tool. Every other type is a value that the user gives in words.
FLOWING_TYPES = (
    "amount",
    "audio",
    "contact",
    "document",
    "email",
    "event",
    "image",
    "place",
    "table",
    "text",
    "ticket",
)

# name, description, inputs (in words or from the tool before), outputs; each one a semantic type.
_TABLE: tuple[tuple[str, str, str, str], ...] = (
    # Mail
    (
        "mailbox_search",
        "Find one message in the inbox by who wrote it and what it is about; gives the message "
        "and its sender.",
        "person_name topic",
        "email contact",
    ),
    ("attachment_save", "Save the file that came with a message.", "email", "document"),
    ("mail_digest", "Shorten an email to its main points.", "email", "text"),
    ("mail_forward", "Pass an email on to another person.", "email person_name", ""),
    # Documents
    ("file_search", "Find a stored document by its file name.", "file_name", "document"),
    ("document_digest", "Shorten a document to its main points.", "document", "text"),
    (
        "document_translate",
        "Translate a whole document and keep its layout.",
        "document language",
        "document",
    ),
    ("document_tables", "Extract the tables of a document as rows.", "document", "table"),
    ("document_sign", "Put the user's signature on a document.", "document", "document"),
    (
        "document_create",
        "Make a new PDF out of text, a table or an image.",
        "text|table|image",
        "document",
    ),
    ("document_mail", "Send a document to a person by email.", "document person_name", ""),
    # Images
    ("photo_search", "Find a photo in the gallery by what it shows.", "picture_subject", "image"),
    ("image_text", "Read the printed or written words in an image.", "image", "text"),
    ("image_caption", "Describe in words what an image shows.", "image", "text"),
    ("image_enhance", "Make an image sharper and brighter.", "image", "image"),
    ("receipt_total", "Read the sum paid from an image of a receipt.", "image", "amount"),
    # Audio
    ("recording_search", "Find a sound recording by its title.", "recording_title", "audio"),
    ("audio_transcribe", "Write down the speech in a recording.", "audio", "text"),
    ("audio_cleanup", "Remove noise from a recording.", "audio", "audio"),
    ("voice_message", "Send a recording to a person's phone.", "audio person_name", ""),
    # Text
    ("page_fetch", "Get the text of a web page.", "web_address", "text"),
    ("text_translate", "Translate a text into another language.", "text language", "text"),
    ("text_digest", "Shorten a text to its main points.", "text", "text"),
    ("text_to_speech", "Read a text aloud into a recording.", "text", "audio"),
    ("chat_post", "Post a text or an image in a chat channel.", "text|image channel", ""),
    # Support tickets
    (
        "ticket_lookup",
        "Get a support ticket by number; gives the ticket, who reported it and what they wrote.",
        "ticket_number",
        "ticket contact text",
    ),
    ("ticket_create", "Open a support ticket from a text or an email.", "text|email", "ticket"),
    ("ticket_assign", "Give a support ticket to a colleague.", "ticket person_name", ""),
    # Data tables
    ("sheet_open", "Open a spreadsheet by its file name.", "sheet_name", "table"),
    ("table_filter", "Keep the rows of a table that meet a condition.", "table condition", "table"),
    ("table_chart", "Draw a chart of a table.", "table", "image"),
    ("table_total", "Add up a column of money in a table.", "table column_name", "amount"),
    # Money
    ("currency_convert", "Convert an amount of money.", "amount currency", "amount"),
    ("payment_send", "Pay an amount of money to a person.", "amount person_name", ""),
    ("expense_log", "Record an amount as spent on a project.", "amount project_name", ""),
    # Calendar
    (
        "calendar_search",
        "Find an event in the calendar; gives the event, its venue and its organiser.",
        "event_title day",
        "event place contact",
    ),
    ("event_create", "Make a calendar event from the date in a text.", "text", "event"),
    ("event_move", "Move a calendar event to another time.", "event day", "event"),
    ("event_invite", "Invite a person to a calendar event.", "event person_name", ""),
    # People
    (
        "contact_lookup",
        "Find a person in the address book; gives the contact and the home address.",
        "person_name",
        "contact place",
    ),
    ("meeting_schedule", "Set up a meeting with a contact.", "contact day", "event"),
    ("sms_send", "Send a short message to a contact's phone.", "contact message", ""),
    # Places
    ("place_search", "Find a place of some kind in a city.", "place_kind city", "place"),
    ("weather_report", "Get the weather forecast for a place.", "place", "text"),
    ("fare_estimate", "Estimate the price of a taxi to a place.", "place", "amount"),
)


def quickstart_catalog() -> Catalog:
    """The catalog: tools in the table's order, edges by the rule, in tool order."""
    tools = tuple(
        Tool(name, description, _schema(inputs), _schema(outputs))
        for name, description, inputs, outputs in _TABLE
    )
    edges = tuple((a.name, b.name) for a in tools for b in tools if a is not b and linking(a, b))
    return Catalog(tools, edges)


def linking(source: Tool, target: Tool) -> frozenset[str]:
    """The semantic types through which `target` can take an output of `source`."""
    return semantic_types(source.outputs) & semantic_types(target.parameters)


def semantic_types(schema: dict[str, Any] | None) -> frozenset[str]:
    """The semantic types of a schema's properties."""
    properties = (schema or {}).get("properties", {})
    return frozenset(value[TYPE_KEY] for value in properties.values())


def _schema(types: str) -> dict[str, Any]:
    """JSON Schema for a row's cell; of inputs joined by `|` exactly one is to be given."""
    required: list[str] = []
    properties: dict[str, Any] = {}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    for word in types.split():
        choices = word.split("|")
        for name in choices:
            properties[name] = {
                "type": "number" if name == "amount" else "string",
                TYPE_KEY: name,
            }
        if len(choices) == 1:
            required.append(word)
        else:
            schema["oneOf"] = [{"required": [name]} for name in choices]
    return schema

"""The quickstart's words: how people ask for each step, and the values they fill in. Data only.

A wording belongs to a tool and to the one of its outputs that the next step takes (empty for a tool
that ends a plan). `do` is a verb phrase, `noun` names the result by how it is made, so that a step
can be implied rather than asked for, and `ref` points back to a result that has been mentioned.
`{it}` is what the step works on; the other slots are drawn from VALUES. Tools that do the same to
different types share phrases on purpose: what flows into the step has to decide. No phrase may hold
the name of a tool.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Wording:
    """Templates for one step; `noun` is empty where no natural noun phrase names the result."""

    do: tuple[str, ...]
    noun: tuple[str, ...] = ()
    ref: tuple[str, ...] = ()


_DIGEST = (
    "summarise {it}",
    "boil {it} down to {count} lines",
    "give the gist of {it}",
    "condense {it} into {count} sentences",
    "write a short summary of {it}",
    "cut {it} down to its main points",
    "shorten {it} to {count} sentences",
    "say in {count} lines what matters in {it}",
)
_DIGEST_NOUN = ("a summary of {it}", "the gist of {it}", "the main points of {it}")
_DIGEST_REF = ("the summary", "the short version", "the main points")
_TRANSLATE = (
    "translate {it} into {language}",
    "put {it} into {language}",
    "make a {language} version of {it}",
    "turn {it} into {language}",
    "render {it} in {language}",
    "write {it} again in {language}",
    "translate {it} for our {language} readers",
)
_TRANSLATE_NOUN = ("a {language} version of {it}", "the {language} translation of {it}")
_TRANSLATE_REF = ("the {language} version", "the translation")

WORDINGS: dict[tuple[str, str], Wording] = {
    ("mailbox_search", "email"): Wording(
        (
            "find the mail {person} sent about {topic}",
            "look up {person}'s email on {topic}",
            "dig out the message from {person} about {topic} in my inbox",
            "go through my inbox for {person}'s mail about {topic}",
            "get the email in which {person} wrote about {topic}",
            "pull up what {person} mailed me about {topic}",
            "track down {person}'s message on {topic} among my mails",
        ),
        (
            "{person}'s mail about {topic}",
            "the email from {person} on {topic}",
            "the message {person} mailed me about {topic}",
        ),
        ("the mail", "that email", "the message"),
    ),
    ("mailbox_search", "contact"): Wording(
        (
            "find out who mailed me about {topic}",
            "look through my inbox for whoever wrote about {topic}",
            "check which person emailed me about {topic}",
            "see in my mails who asked about {topic}",
            "look up the sender of the mail about {topic}",
            "find the person behind the email on {topic}",
        ),
        (
            "whoever mailed me about {topic}",
            "the sender of the mail about {topic}",
            "the person who emailed me about {topic}",
        ),
        ("the sender", "that person"),
    ),
    ("attachment_save", "document"): Wording(
        (
            "download the attachment of {it}",
            "save the file attached to {it}",
            "take the attached file out of {it}",
            "keep the document that came with {it}",
            "grab the attachment from {it}",
            "store the file that {it} carries",
        ),
        (
            "the attachment of {it}",
            "the file attached to {it}",
            "the document that came with {it}",
        ),
        ("the attachment", "the attached file"),
    ),
    ("mail_digest", "text"): Wording(_DIGEST, _DIGEST_NOUN, _DIGEST_REF),
    ("mail_forward", ""): Wording(
        (
            "forward {it} to {person}",
            "pass {it} on to {person}",
            "send {it} along to {person}",
            "let {person} have a copy of {it}",
            "send {it} to {person}",
            "relay {it} to {person}",
            "share {it} with {person}",
        )
    ),
    ("file_search", "document"): Wording(
        (
            "find {file}",
            "open {file}",
            "get {file} from my drive",
            "look for {file} in my documents",
            "pull {file} from the shared folder",
            "fetch the file {file}",
            "locate {file} on the server",
        ),
        ("{file}", "the file {file}", "{file} in my documents"),
        ("the file", "the document", "that file"),
    ),
    ("document_digest", "text"): Wording(_DIGEST, _DIGEST_NOUN, _DIGEST_REF),
    ("document_translate", "document"): Wording(_TRANSLATE, _TRANSLATE_NOUN, _TRANSLATE_REF),
    ("document_tables", "table"): Wording(
        (
            "pull the tables out of {it}",
            "extract the figures from {it}",
            "lift the rows of numbers out of {it}",
            "copy the table in {it}",
            "collect the rows of data in {it}",
            "get the tabulated figures from {it}",
        ),
        ("the table in {it}", "the figures in {it}", "the rows of data in {it}"),
        ("the table", "those rows", "the extracted table"),
    ),
    ("document_sign", "document"): Wording(
        (
            "sign {it}",
            "put my signature on {it}",
            "add my signature to {it}",
            "sign {it} in my name",
            "sign {it} for me",
            "place my signature at the end of {it}",
        ),
        ("a signed copy of {it}", "a copy of {it} with my signature"),
        ("the signed copy", "the signed version"),
    ),
    ("document_create", "document"): Wording(
        (
            "save {it} as a PDF",
            "make a PDF of {it}",
            "put {it} into a new document",
            "lay {it} out on a clean page",
            "store {it} in a fresh document",
            "turn {it} into a PDF",
            "place {it} in a file of its own",
        ),
        ("a PDF of {it}", "a new document with {it}"),
        ("the PDF", "the new document"),
    ),
    ("document_mail", ""): Wording(
        (
            "mail {it} to {person}",
            "email {it} to {person}",
            "send {it} to {person}",
            "get {it} to {person} by mail",
            "attach {it} to a mail to {person}",
            "pass {it} on to {person}",
            "share {it} with {person} by email",
        )
    ),
    ("photo_search", "image"): Wording(
        (
            "find the photo of {picture}",
            "look for the picture of {picture} in my gallery",
            "get my snapshot of {picture}",
            "pull up the picture I took of {picture}",
            "dig out the photo showing {picture}",
            "open the image of {picture}",
            "go through my pictures for the one of {picture}",
        ),
        (
            "the photo of {picture}",
            "my picture of {picture}",
            "the snapshot of {picture}",
        ),
        ("the photo", "the picture", "that photo"),
    ),
    ("image_text", "text"): Wording(
        (
            "read the text in {it}",
            "copy out the words on {it}",
            "type up what is written on {it}",
            "extract the wording from {it}",
            "note down what {it} says",
            "get the printed words off {it}",
        ),
        ("the wording on {it}", "what is written on {it}", "the words printed on {it}"),
        ("the wording", "what it says", "those words"),
    ),
    ("image_caption", "text"): Wording(
        (
            "describe what {it} shows",
            "say in words what can be seen in {it}",
            "write a caption for {it}",
            "describe {it} in {count} sentences",
            "put into words what is going on in {it}",
            "explain to a blind reader what is to be seen in {it}",
        ),
        ("a description of {it}", "a caption for {it}", "a few words on what {it} shows"),
        ("the caption", "the description"),
    ),
    ("image_enhance", "image"): Wording(
        (
            "sharpen {it}",
            "brighten {it}",
            "fix the blur in {it}",
            "improve the quality of {it}",
            "make {it} crisper",
            "give {it} better light and contrast",
        ),
        ("a sharper version of {it}", "a brighter copy of {it}"),
        ("the sharper version", "the improved picture"),
    ),
    ("receipt_total", "amount"): Wording(
        (
            "read the total off {it}",
            "see how much was paid according to {it}",
            "get the sum at the bottom of {it}",
            "pick the final amount from {it}",
            "find the total due on {it}",
            "check what the bill came to on {it}",
        ),
        ("the total on {it}", "the sum shown on {it}", "the amount paid according to {it}"),
        ("the total", "that amount", "the sum"),
    ),
    ("recording_search", "audio"): Wording(
        (
            "find the recording of {recording}",
            "get the audio of {recording}",
            "look for the recording of {recording}",
            "pull up the tape of {recording}",
            "open the sound file of {recording}",
            "dig out the audio from {recording}",
        ),
        (
            "the recording of {recording}",
            "the audio of {recording}",
            "the tape of {recording}",
        ),
        ("the recording", "the audio", "that recording"),
    ),
    ("audio_transcribe", "text"): Wording(
        (
            "transcribe {it}",
            "write down what is said in {it}",
            "put {it} on paper word for word",
            "make a transcript of {it}",
            "turn the speech in {it} into writing",
            "type up everything said in {it}",
        ),
        ("the transcript of {it}", "what is said in {it}", "the words spoken in {it}"),
        ("the transcript", "the written version", "what was said"),
    ),
    ("audio_cleanup", "audio"): Wording(
        (
            "remove the background noise from {it}",
            "clean up the sound of {it}",
            "filter the hiss out of {it}",
            "take the hum out of {it}",
            "get rid of the noise in {it}",
            "make the voices in {it} clearer",
        ),
        ("a noise-free copy of {it}", "a cleaner version of {it}"),
        ("the clean audio", "the cleaned-up version"),
    ),
    ("voice_message", ""): Wording(
        (
            "send {it} to {person} as a spoken message",
            "leave {it} on {person}'s voicemail",
            "play {it} to {person} over the phone",
            "drop {it} into {person}'s voicemail",
            "let {person} hear {it} by phone",
            "put {it} on {person}'s answering machine",
        )
    ),
    ("page_fetch", "text"): Wording(
        (
            "open the page {site}",
            "load the article at {site}",
            "fetch the text of {site}",
            "get what is written on {site}",
            "read the web page {site}",
            "visit {site} and copy its article",
        ),
        ("the article at {site}", "the web page {site}", "the text of {site}"),
        ("the article", "the text of the page"),
    ),
    ("text_translate", "text"): Wording(_TRANSLATE, _TRANSLATE_NOUN, _TRANSLATE_REF),
    ("text_digest", "text"): Wording(_DIGEST, _DIGEST_NOUN, _DIGEST_REF),
    ("text_to_speech", "audio"): Wording(
        (
            "read {it} aloud",
            "turn {it} into speech",
            "make an audio version of {it}",
            "have {it} spoken by a {voice} voice",
            "record {it} in a {voice} voice",
            "speak {it} into an audio file",
        ),
        ("a spoken version of {it}", "an audio version of {it}"),
        ("the spoken version", "the audio file"),
    ),
    ("chat_post", ""): Wording(
        (
            "post {it} in {channel}",
            "share {it} in the {channel} channel",
            "drop {it} into {channel}",
            "put {it} up in {channel}",
            "show {it} to everyone in {channel}",
            "publish {it} in {channel}",
            "send {it} to the {channel} channel",
        )
    ),
    ("ticket_lookup", "ticket"): Wording(
        (
            "open ticket {ticket}",
            "pull up support case {ticket}",
            "find ticket {ticket} in the help desk",
            "look up case number {ticket}",
            "get issue {ticket} from the tracker",
            "bring up help-desk ticket {ticket}",
        ),
        ("ticket {ticket}", "support case {ticket}", "issue {ticket}"),
        ("the ticket", "that case"),
    ),
    ("ticket_lookup", "contact"): Wording(
        (
            "find out who reported ticket {ticket}",
            "see who opened support case {ticket}",
            "check which customer is behind issue {ticket}",
            "look up the person who filed ticket {ticket}",
            "get the name of whoever reported case {ticket}",
            "look in the help desk for who raised ticket {ticket}",
        ),
        (
            "the person who reported ticket {ticket}",
            "whoever opened case {ticket}",
            "the customer behind issue {ticket}",
        ),
        ("the customer", "whoever reported it"),
    ),
    ("ticket_lookup", "text"): Wording(
        (
            "get the complaint written in ticket {ticket}",
            "read what the customer wrote in case {ticket}",
            "look up the problem described in issue {ticket}",
            "fetch the wording of support ticket {ticket}",
            "copy the complaint from help-desk case {ticket}",
            "see what ticket {ticket} says",
        ),
        (
            "the complaint in ticket {ticket}",
            "what the customer wrote in case {ticket}",
            "the problem described in issue {ticket}",
        ),
        ("the complaint", "what the customer wrote"),
    ),
    ("ticket_create", "ticket"): Wording(
        (
            "turn {it} into a support ticket",
            "file {it} as a new issue",
            "open a help-desk case from {it}",
            "raise a ticket with {it}",
            "log {it} as a case for support",
            "make a new ticket out of {it}",
        ),
        ("a new ticket made from {it}", "a support case based on {it}"),
        ("the new ticket", "that case", "the new case"),
    ),
    ("ticket_assign", ""): Wording(
        (
            "assign {it} to {person}",
            "hand {it} over to {person}",
            "make {person} the owner of {it}",
            "put {person} in charge of {it}",
            "give {it} to {person} to work on",
            "have {person} take care of {it}",
        )
    ),
    ("sheet_open", "table"): Wording(
        (
            "open the spreadsheet {sheet}",
            "load {sheet}",
            "get the rows of {sheet}",
            "pull up the data in {sheet}",
            "read in {sheet}",
            "take the sheet {sheet}",
        ),
        ("the rows in {sheet}", "the data in {sheet}", "the spreadsheet {sheet}"),
        ("the sheet", "the data", "the rows"),
    ),
    ("table_filter", "table"): Wording(
        (
            "keep only the entries on {group} in {it}",
            "narrow {it} down to {group}",
            "filter {it} for {group}",
            "drop everything but {group} from {it}",
            "limit {it} to {group}",
            "pick the entries on {group} out of {it}",
        ),
        ("the part of {it} on {group}", "the entries on {group} in {it}"),
        ("the remaining rows", "what is left", "the filtered rows"),
    ),
    ("table_chart", "image"): Wording(
        (
            "draw a chart of {it}",
            "plot {it}",
            "turn {it} into a bar chart",
            "make a graph of {it}",
            "show {it} as a line chart",
            "sketch a pie chart from {it}",
        ),
        ("a chart of {it}", "a graph of {it}"),
        ("the chart", "the graph"),
    ),
    ("table_total", "amount"): Wording(
        (
            "add up the {column} in {it}",
            "total the {column} in {it}",
            "sum all {column} in {it}",
            "work out the overall {column} in {it}",
            "calculate what the {column} in {it} come to",
            "compute the grand total of the {column} in {it}",
        ),
        ("the total {column} in {it}", "the sum of the {column} in {it}"),
        ("the total", "that sum"),
    ),
    ("currency_convert", "amount"): Wording(
        (
            "convert {it} into {currency}",
            "change {it} to {currency}",
            "express {it} in {currency}",
            "see how much {it} is in {currency}",
            "find out what {it} is worth in {currency}",
            "turn {it} into {currency}",
        ),
        ("{it} in {currency}",),
        ("the amount in {currency}", "the converted sum"),
    ),
    ("payment_send", ""): Wording(
        (
            "pay {it} to {person}",
            "transfer {it} to {person}",
            "wire {it} to {person}'s account",
            "send {it} to {person}'s bank account",
            "settle {it} with {person}",
            "reimburse {person} with {it}",
        )
    ),
    ("expense_log", ""): Wording(
        (
            "book {it} as an expense for {project}",
            "add {it} to the {project} expenses",
            "note {it} in the spending list of {project}",
            "charge {it} to the {project} budget",
            "file {it} under {project} costs",
            "record {it} as spent on {project}",
        )
    ),
    ("calendar_search", "event"): Wording(
        (
            "find the {event} on {day} in my calendar",
            "look up {day}'s {event} in my diary",
            "check my calendar for the {event} on {day}",
            "pull up the {event} I have on {day}",
            "open the calendar entry for {day}'s {event}",
            "find {day}'s {event} among my appointments",
        ),
        ("the {event} on {day}", "{day}'s {event}", "the {event} in my calendar for {day}"),
        ("the {event}", "that entry"),
    ),
    ("calendar_search", "place"): Wording(
        (
            "check my calendar for where the {event} on {day} takes place",
            "look up the venue of {day}'s {event} in my diary",
            "see in my calendar where {day}'s {event} is held",
            "find out from my calendar where I have to be for the {event} on {day}",
            "get the venue of the {event} on {day}",
            "look in my diary for the location of {day}'s {event}",
        ),
        (
            "the venue of {day}'s {event}",
            "the place where the {event} is held on {day}",
            "the location of the {event} on {day}",
        ),
        ("the venue", "that location"),
    ),
    ("calendar_search", "contact"): Wording(
        (
            "see in my calendar who organises the {event} on {day}",
            "look up the organiser of {day}'s {event}",
            "check my diary for who set up the {event} on {day}",
            "find out who called the {event} on {day}",
            "get the name of the host of {day}'s {event} from my calendar",
            "find the organiser of the {event} on {day} in my calendar",
        ),
        (
            "the organiser of {day}'s {event}",
            "whoever set up the {event} on {day}",
            "the host of {day}'s {event}",
        ),
        ("the organiser", "that host"),
    ),
    ("event_create", "event"): Wording(
        (
            "put the appointment mentioned in {it} into my calendar",
            "add the date given in {it} to my calendar",
            "make a calendar entry from {it}",
            "enter the meeting announced in {it} in my diary",
            "block my calendar for the date in {it}",
            "turn {it} into a calendar entry",
        ),
        ("a calendar entry made from {it}", "a diary entry for the date in {it}"),
        ("the new entry", "that appointment"),
    ),
    ("event_move", "event"): Wording(
        (
            "move {it} to {day}",
            "shift {it} to {day}",
            "push {it} back to {day}",
            "reschedule {it} for {day}",
            "change the date of {it} to {day}",
            "make {day} the new day for {it}",
        ),
        (),
        ("the moved event", "the event with its new date"),
    ),
    ("event_invite", ""): Wording(
        (
            "invite {person} to {it}",
            "add {person} to the guests of {it}",
            "ask {person} to join {it}",
            "put {person} on the guest list of {it}",
            "send {person} an invitation to {it}",
            "have {person} come to {it}",
        )
    ),
    ("contact_lookup", "contact"): Wording(
        (
            "look {person} up in my address book",
            "find {person}'s contact details",
            "get {person}'s number from my contacts",
            "pull {person}'s card from my contacts",
            "check my contacts for {person}",
            "find {person} in my phone book",
        ),
        ("{person}", "{person} from my contacts", "{person} from my address book"),
        ("{person}",),
    ),
    ("contact_lookup", "place"): Wording(
        (
            "look up where {person} lives",
            "get {person}'s address from my contacts",
            "find {person}'s home address",
            "check my address book for where {person} lives",
            "get the street {person} lives in from my contacts",
            "find out {person}'s address",
        ),
        ("{person}'s home", "{person}'s address", "{person}'s house"),
        ("that address", "{person}'s house"),
    ),
    ("meeting_schedule", "event"): Wording(
        (
            "set up a meeting on {day} with {it}",
            "book half an hour on {day} with {it}",
            "schedule a {day} call with {it}",
            "arrange a talk on {day} with {it}",
            "find a slot on {day} to meet {it}",
            "plan a {day} chat with {it}",
        ),
        ("a {day} meeting with {it}", "a call on {day} with {it}"),
        ("the meeting", "that appointment"),
    ),
    ("sms_send", ""): Wording(
        (
            "text {it} that {message}",
            "let {it} know by text that {message}",
            "send {it} a short text saying that {message}",
            "message {it} on the phone that {message}",
            "drop {it} a text that {message}",
            "tell {it} by text that {message}",
        )
    ),
    ("place_search", "place"): Wording(
        (
            "find {kind} in {city}",
            "look for {kind} near the centre of {city}",
            "search the map for {kind} in {city}",
            "pick {kind} close to {city} station",
            "see if there is {kind} in {city}",
            "locate {kind} in {city}",
        ),
        ("{kind} in {city}", "{kind} in the centre of {city}", "{kind} near {city} station"),
        ("that place", "the place", "the one you found"),
    ),
    ("weather_report", "text"): Wording(
        (
            "get the forecast for {it}",
            "check the weather at {it}",
            "find out whether it will rain at {it}",
            "see how warm it will be at {it}",
            "look up the forecast for {it}",
            "check for storms at {it}",
        ),
        ("the forecast for {it}", "the weather at {it}"),
        ("the forecast", "the outlook"),
    ),
    ("fare_estimate", "amount"): Wording(
        (
            "work out what a taxi to {it} would cost",
            "estimate the cab fare to {it}",
            "find out how much a ride to {it} costs",
            "get the price of a taxi to {it}",
            "check what a cab to {it} would set me back",
            "figure out the taxi fare to {it}",
        ),
        ("the price of a taxi to {it}", "the cab fare to {it}"),
        ("the fare", "that fare"),
    ),
}

# What a subtask calls the thing it works on, by type: plain enough to tell the types apart.
TYPE_NOUNS: dict[str, tuple[str, ...]] = {
    "amount": ("the amount", "the sum of money"),
    "audio": ("the recording", "the audio"),
    "contact": ("the contact", "that person"),
    "document": ("the document", "the file"),
    "email": ("the email", "the mail"),
    "event": ("the event", "the calendar entry"),
    "image": ("the image", "the picture"),
    "place": ("the place", "that location"),
    "table": ("the table", "the rows"),
    "text": ("the text", "the written text"),
    "ticket": ("the ticket", "the support case"),
}

# Types that `it` can stand for, and what stands there instead for the others.
PRONOUNS: dict[str, tuple[str, ...]] = {
    "contact": ("them", "that person"),
    "place": ("that place",),
    "amount": ("it", "that"),
}
DEFAULT_PRONOUNS = ("it",)

# Steps a request may leave out because the next step cannot do without them: "sum up the recording"
# asks for the transcript too. At each pair the shortest legal chain is the only one.
IMPLIED = frozenset(
    {
        ("audio_transcribe", "text_translate"),
        ("audio_transcribe", "text_digest"),
        ("image_text", "text_translate"),
        ("text_to_speech", "voice_message"),
        ("document_tables", "table_total"),
    }
)

_FILES = tuple(
    f"{stem}.{ending}"
    for stem in (
        "lease",
        "offer",
        "contract",
        "proposal",
        "minutes",
        "user-manual",
        "annual-report",
        "price-list",
        "policy",
        "audit-notes",
        "travel-plan",
        "order-form",
        "catalogue",
        "budget-plan",
        "quarterly-review",
        "agreement",
    )
    for ending in ("pdf", "docx")
)
_SHEETS = tuple(
    f"{stem}.{ending}"
    for stem in (
        "march-sales",
        "spring-orders",
        "suppliers",
        "team-trips",
        "club-members",
        "shop-takings",
        "rent-roll",
        "donations",
        "repairs",
        "bookings",
        "stock",
        "deliveries",
    )
    for ending in ("xlsx", "csv")
)

RECEIPTS = (
    "the hotel receipt",
    "the taxi receipt",
    "the dinner bill",
    "the pharmacy receipt",
    "the petrol receipt",
    "the garage bill",
    "the bookshop receipt",
    "the hardware-store bill",
)
ANNOUNCEMENTS = (
    "the whiteboard",
    "the notice on the door",
    "the concert poster",
    "the theatre programme",
    "the school flyer",
    "the wedding invitation",
    "the letter from the bank",
)
LETTERING = (
    *ANNOUNCEMENTS,
    "the lunch menu",
    "the street sign",
    "the warning label",
    "the museum plaque",
    "the handwritten recipe",
    "the opening hours",
)
SCENES = (
    "the harbour",
    "my garden",
    "the old bridge",
    "our new office",
    "the birthday cake",
    "the dog on the beach",
    "the snowy street",
    "the market square",
    "the broken window",
    "the team on the roof",
)

VALUES: dict[str, tuple[str, ...]] = {
    "person": (
        "Priya", "Omar", "Lena", "Mateo", "Aisha", "Jonas", "Mei", "Carlos", "Ingrid", "Tariq",
        "Sofia", "Daniel", "Yuki", "Nadia", "Pedro", "Hannah", "Kofi", "Elena", "Ravi", "Clara",
        "Tomas", "Fatima", "Oskar", "Leila", "Marcus", "Amina", "Viktor", "Rosa", "Emil", "Zoe",
    ),
    "topic": (
        "the lease", "the new website", "the trade fair", "the water damage", "the summer party",
        "the training course", "the delivery", "the insurance", "the job offer", "the school trip",
        "the parking permit", "the broken heating", "the exhibition", "the refund",
        "the software update", "the garden project",
    ),
    "file": _FILES,
    "sheet": _SHEETS,
    "language": (
        "French", "German", "Spanish", "Polish", "Dutch", "Japanese", "Korean", "Portuguese",
        "Turkish", "Greek", "Swedish", "Finnish", "Czech", "Danish", "Hungarian", "Vietnamese",
    ),
    "recording": (
        "the board interview", "my call with the bank", "the team stand-up", "the lecture",
        "the choir rehearsal", "the podcast pilot", "the court hearing", "the town debate",
        "my talk with the architect", "the press briefing", "the customer call",
        "the site inspection",
    ),
    "site": (
        "harbourpost.example", "citymuseum.example", "trailguide.example", "gardenweekly.example",
        "portnews.example", "railblog.example", "bakersclub.example", "solarwatch.example",
        "skyreport.example", "oldtown.example",
    ),
    "channel": (
        "#design", "#sales", "#general", "#support", "#finance", "#field-team", "#marketing",
        "#kitchen", "#research", "#volunteers",
    ),
    "ticket": tuple(str(number) for number in range(117, 997, 11)),
    "group": (
        "overdue orders", "new customers", "last month", "the northern region", "open invoices",
        "returned goods", "the city branch", "online orders", "paid invoices", "the last quarter",
    ),
    "column": ("costs", "fees", "refunds", "sales", "payments", "prices", "discounts", "deposits"),
    "currency": (
        "euros", "dollars", "pounds", "yen", "Swiss francs", "Danish crowns", "zloty", "rupees",
        "pesos", "won",
    ),
    "project": (
        "Falcon", "Riverside", "Bluebird", "Northgate", "Maple", "Horizon", "Lighthouse", "Cedar",
    ),
    "event": (
        "dentist appointment", "budget meeting", "team lunch", "piano lesson", "job interview",
        "kick-off", "book club", "board meeting", "workshop", "parents' evening", "yoga class",
        "product demo",
    ),
    "day": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "message": (
        "I am running late", "the door code has changed", "lunch is on me", "the parcel is here",
        "I will call tonight", "we are all set", "the lift is out of order", "I found the keys",
        "the plan has changed", "the room is booked",
    ),
    "kind": (
        "a quiet café", "a campsite", "a bike shop", "a sushi bar", "a climbing hall",
        "a swimming pool", "a flower shop", "a small hotel", "a beer garden", "a chess club",
        "a playground", "a photo studio",
    ),
    "city": (
        "Oslo", "Lisbon", "Kyoto", "Prague", "Toronto", "Nairobi", "Porto", "Vienna", "Lima",
        "Ghent", "Seoul", "Bergen", "Granada", "Tallinn", "Leeds", "Turin",
    ),
    "count": ("two", "three", "four", "five"),
    "voice": ("calm", "deep", "clear", "friendly"),
}  # fmt: skip

# Clauses that ask for nothing, with the types they touch: a request that works on one of these
# types does not get the clause, so that no reader takes it for a step.
ASIDES: tuple[tuple[str, str], ...] = (
    ("", "My boss wants this before lunch."),
    ("", "It has been a long week."),
    ("", "I only have a few minutes."),
    ("", "{person} will be glad to see this done."),
    ("", "My phone battery is almost flat."),
    ("", "There is no hurry at all."),
    ("", "The coffee machine is broken again."),
    ("", "We had a power cut this morning."),
    ("", "I am writing this from the train to {city}."),
    ("", "{person} asked me for this twice already."),
    ("", "Sorry to bother you on {day}."),
    ("document", "The printer is out of paper, but never mind."),
    ("document", "I have already signed the other contract."),
    ("document", "{file} was sent last week, leave it alone."),
    ("audio", "The builders next door are so loud today."),
    ("audio", "I lost my headphones in {city}."),
    ("audio", "{person} left me a voicemail, I have heard it."),
    ("amount", "Lunch was paid in {currency}, that is settled."),
    ("amount", "I paid the taxi this morning."),
    ("amount", "Prices in {city} have gone up a lot."),
    ("email", "My inbox is a mess, but that can wait."),
    ("email", "{person} never answers mails anyway."),
    ("email", "I have forwarded the other message already."),
    ("image", "My new camera takes lovely pictures."),
    ("image", "{person} hates being in photos."),
    ("event", "The {event} went well, by the way."),
    ("event", "My calendar is empty on {day}."),
    ("contact", "{person} has a new phone number, I wrote it down."),
    ("contact", "I have texted {person} about dinner already."),
    ("table", "The numbers in {sheet} are someone else's job."),
    ("table", "{person} loves spreadsheets and I do not."),
    ("ticket", "Support has closed my own case, finally."),
    ("ticket", "{person} takes care of ticket {ticket}."),
    ("place", "It is raining in {city}, of course."),
    ("place", "I walked to {kind} yesterday and loved it."),
    ("text", "My {language} is getting better, but that is another story."),
    ("text", "{person} translated the old brochure last year."),
    ("text", "I read a long article on sleep last night."),
)

OPENERS = (
    "{a}.",
    "{a}.",
    "Please {a}.",
    "Hi, please {a}.",
    "Could you {a}?",
    "Can you {a}?",
    "Would you {a}?",
    "I'd like you to {a}.",
    "I want you to {a}.",
    "We have to {a}.",
    "Help me {a}.",
    "Would it be possible to {a}?",
    "Do me a favour and {a}.",
    "It would be great if you could {a}.",
    "My next job is to {a}.",
    "Hey, can somebody {a}?",
    "Before I leave tonight I must {a}.",
    "Tomorrow is the deadline and I still have to {a}.",
    "My colleague is ill, so it falls to me to {a}.",
    "I promised to {a}.",
    "How do I {a}?",
    "Here is what I need you to do: {a}.",
    "I keep forgetting to {a}.",
    "Someone has to {a}.",
)
FOLLOWERS = (
    "Then {a}.",
    "After that, {a}.",
    "Next, {a}.",
    "Once that is done, {a}.",
    "With that done, {a}.",
    "Afterwards {a}.",
    "When you have it, {a}.",
    "{a}.",
    "And please {a}.",
    "I also want you to {a}.",
)
CLOSERS = (
    "Finally, {a}.",
    "To finish, {a}.",
    "Last of all, {a}.",
    "In the end, {a}.",
    "Then just {a}.",
    "When all that is done, {a}.",
)
PAIRS = ("{a} and {b}", "{a}, then {b}", "{a} and then {b}", "{a} and after that {b}")
TRIPLES = ("{a}, {b} and {c}", "{a}, then {b} and {c}", "{a}, {b}, then {c}")

# Ends of sentences that add a reason or a detail, and no step.
TAILS = (
    ", because {person} asked for it",
    ", just like last time",
    ", as we did before the trip to {city}",
    ", so that nobody has to ask again",
    ", while I make coffee",
    ", if you do not mind",
    ", since {person} is away this week",
    ", as promised on {day}",
    ", if there is time",
    ", so {person} can stop worrying",
)

# The last step first, then how to get there.
GOALS = (
    "I need to {goal}. For that, {steps}.",
    "The aim is to {goal}. To get there, {steps}.",
    "I would like to {goal}, so please {steps} first.",
    "To {goal}, {steps} first.",
    "Before you {goal}, {steps}.",
    "{goal}, but first {steps}.",
    "{goal} after you {steps}.",
    "My plan is to {goal}, but before that you have to {steps}.",
    "Could you {goal}? You will have to {steps} beforehand.",
    "Someone asked me to {goal}. So {steps} for a start.",
)
# The result first, then where it comes from.
RESULTS = (
    "I need {result}. Start like this: {steps}.",
    "What I am after is {result}: {steps} first.",
    "We still need {result}, so {steps} to begin with.",
    "Get me {result}. Before that, {steps}.",
)
WANTED = (
    "I need {result}.",
    "Get me {result}.",
    "Can I have {result}?",
    "I am looking for {result}.",
    "Please make me {result}.",
    "Could you give me {result}?",
    "What I want is {result}.",
)
NUMBERED = ("{n}. {a}", "{n}) {a}", "Step {n}: {a}")
LISTS = ("To do: {items}.", "Here is the list: {items}.", "{items}.")

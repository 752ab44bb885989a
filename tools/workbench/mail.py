"""Operations on the mailbox."""

from selfwire.tools.workbench.tables import (
    NOW,
    Operation,
    Tables,
    address,
    field_of,
    find_row_index,
    format_rows,
    next_id,
)

_ID = {"email_id": "Eight digits."}


def _get(tables: Tables, email_id: str, field: str) -> str:
    return field_of(tables.emails, "email_id", email_id, field)


def _search(tables: Tables, query: str, date_min: str, date_max: str) -> str:
    words = query.lower().split()
    found = [
        email
        for email in tables.emails
        if all(word in f"{email['subject']} {email['body']} {email['sender/recipient']}".lower() for word in words)
        and (not date_min or email["sent_datetime"][:10] >= date_min[:10])
        and (not date_max or email["sent_datetime"][:10] <= date_max[:10])
    ]
    return format_rows(sorted(found, key=lambda email: email["sent_datetime"], reverse=True))


def _send(tables: Tables, recipient: str, subject: str, body: str) -> str:
    tables.emails.append(
        {
            "email_id": next_id(tables.emails, "email_id"),
            "inbox/outbox": "outbox",
            "sender/recipient": address(recipient),
            "subject": subject,
            "sent_datetime": NOW,
            "body": body,
        }
    )
    return "The email was sent."


def _delete(tables: Tables, email_id: str) -> str:
    del tables.emails[find_row_index(tables.emails, "email_id", email_id)]
    return "The email was deleted."


def _forward(tables: Tables, email_id: str, recipient: str) -> str:
    email = tables.emails[find_row_index(tables.emails, "email_id", email_id)]
    return _send(tables, recipient, f"FW: {email['subject']}", email["body"])


def _reply(tables: Tables, email_id: str, body: str) -> str:
    email = tables.emails[find_row_index(tables.emails, "email_id", email_id)]
    return _send(tables, email["sender/recipient"], email["subject"], body)


OPERATIONS = (
    Operation(
        "email_get_email_information_by_id",
        "Look up one field of an email.",
        {**_ID, "field": "One of email_id, inbox/outbox, sender/recipient, subject, sent_datetime, body."},
        _get,
        ("email_id", "field"),
    ),
    Operation(
        "email_search_emails",
        "Find emails in which every word occurs, in subject, body or address; shows the newest 5 at most.",
        {
            "query": "Words; empty for all.",
            "date_min": "Earliest day, YYYY-MM-DD.",
            "date_max": "Latest day, YYYY-MM-DD.",
        },
        _search,
    ),
    Operation(
        "email_send_email",
        "Send an email.",
        {"recipient": "Address.", "subject": "Its subject.", "body": "Its text."},
        _send,
        ("recipient", "subject", "body"),
        changes=True,
    ),
    Operation("email_delete_email", "Delete an email.", _ID, _delete, ("email_id",), changes=True),
    Operation(
        "email_forward_email",
        "Send an email on to somebody.",
        {**_ID, "recipient": "Address."},
        _forward,
        ("email_id", "recipient"),
        changes=True,
    ),
    Operation(
        "email_reply_email",
        "Answer an email; the answer goes to its sender under the same subject.",
        {**_ID, "body": "Text of the answer."},
        _reply,
        ("email_id", "body"),
        changes=True,
    ),
)

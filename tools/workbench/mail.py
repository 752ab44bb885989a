"""Operations on the mailbox."""

from selfwire.tools.workbench.records import Records
from selfwire.tools.workbench.tables import NOW, Operation, Tables, check_address, format_rows, is_between

EMAILS = Records("emails", "email")


def _search(tables: Tables, query: str, date_min: str, date_max: str) -> str:
    words = query.lower().split()
    found = [
        email
        for email in tables.emails
        if all(word in f"{email['subject']} {email['body']} {email['sender/recipient']}".lower() for word in words)
        and is_between(email["sent_datetime"][:10], date_min[:10], date_max[:10])
    ]
    return format_rows(sorted(found, key=lambda email: email["sent_datetime"], reverse=True))


def _send(tables: Tables, recipient: str, subject: str, body: str) -> str:
    fields = {
        "inbox/outbox": "outbox",
        "sender/recipient": check_address(recipient),
        "subject": subject,
        "sent_datetime": NOW,
        "body": body,
    }
    EMAILS.add(tables, **fields)
    return "The email was sent."


def _forward(tables: Tables, email_id: str, recipient: str) -> str:
    email = EMAILS.get(tables, email_id)
    return _send(tables, recipient, f"FW: {email['subject']}", email["body"])


def _reply(tables: Tables, email_id: str, body: str) -> str:
    email = EMAILS.get(tables, email_id)
    return _send(tables, email["sender/recipient"], email["subject"], body)


OPERATIONS = (
    EMAILS.look_up_operation(
        "email_get_email_information_by_id",
        "Look up one field of an email.",
        "One of email_id, inbox/outbox, sender/recipient, subject, sent_datetime, body.",
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
    EMAILS.delete_operation("email_delete_email", "Delete an email."),
    Operation(
        "email_forward_email",
        "Send an email on to somebody.",
        {**EMAILS.id_parameter, "recipient": "Address."},
        _forward,
        ("email_id", "recipient"),
        changes=True,
    ),
    Operation(
        "email_reply_email",
        "Answer an email; the answer goes to its sender under the same subject.",
        {**EMAILS.id_parameter, "body": "Text of the answer."},
        _reply,
        ("email_id", "body"),
        changes=True,
    ),
)

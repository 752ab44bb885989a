"""Texts of errands: twelve situations, with wordings for learning and others for the test.

Half of the situations need the helper that one would guess, half need one that only experience shows.
`{thing}` and `{place}` are filled per task.
"""

from typing import NamedTuple


class Situation(NamedTuple):
    """A kind of hidden state.

    Attributes:
        helper: the only one who can settle it.
        known: wordings for learning.
        held_out: wordings for the test; no sentence is in both.
    """

    helper: str
    known: tuple[str, ...]
    held_out: tuple[str, ...]


SITUATIONS: tuple[Situation, ...] = (
    Situation(
        "librarian",
        (
            "Nobody remembers when the {thing} was built; find the year.",
            "The date of the {thing} is unknown and has to be looked up.",
            "Find out from old papers who first owned the {thing}.",
            "The history of the {thing} must be traced in the files.",
            "Look up what the records say about the {thing}.",
        ),
        (
            "Somebody must dig out the facts about the origin of the {thing}.",
            "Which year does the {thing} stem from? Search the documents.",
            "The past of the {thing} is a riddle; consult written sources.",
        ),
    ),
    Situation(
        "librarian",
        (
            "Heavy rain has begun at the {place} and nobody wants to go out.",
            "It is pouring at the {place}, and the streets are wet.",
            "A storm hangs over the {place}; everything outside is soaked.",
            "The weather at the {place} is awful, with rain all day.",
            "Thunder and showers hold up all work at the {place}.",
        ),
        (
            "At the {place} the sky has opened and water comes down in buckets.",
            "Wet, windy weather makes it impossible to work at the {place}.",
            "A downpour keeps everybody indoors at the {place}.",
        ),
    ),
    Situation(
        "courier",
        (
            "The {thing} must get from the {place} to the customer today.",
            "Take the {thing} across town to the {place}.",
            "Bring the {thing} to the {place} before noon.",
            "The {thing} is waiting at the {place} to be picked up and delivered.",
            "Carry the {thing} over to the {place}.",
        ),
        (
            "Somebody has to transport the {thing} to the {place}.",
            "The {thing} needs to be handed over at the {place}, at the other end of town.",
            "Fetch the {thing} and drop it off at the {place}.",
        ),
    ),
    Situation(
        "courier",
        (
            "The lights at the {place} have gone out.",
            "There is no electricity at the {place}.",
            "A blackout has left the {place} in the dark.",
            "The power at the {place} is off since this morning.",
            "All lamps at the {place} are dead.",
        ),
        (
            "Nothing electric works at the {place}; one sees no hand before one's eyes.",
            "The current failed and the {place} is dark.",
            "An outage switched off every bulb at the {place}.",
        ),
    ),
    Situation(
        "negotiator",
        (
            "The seller of the {thing} asks for too much money.",
            "The price of the {thing} is far too high; get it lowered.",
            "Haggle with the trader over the {thing}.",
            "The owner wants twice what the {thing} is worth.",
            "Agree on a fair price for the {thing}.",
        ),
        (
            "The {thing} is overpriced and the merchant must come down.",
            "Strike a better bargain for the {thing}.",
            "They demand a fortune for the {thing}; talk about a discount.",
        ),
    ),
    Situation(
        "negotiator",
        (
            "The dog at the {place} barks and lets nobody in.",
            "A growling dog guards the gate of the {place}.",
            "The hound of the {place} blocks the door.",
            "Nobody gets past the fierce dog at the {place}.",
            "A loose dog runs around the yard of the {place}.",
        ),
        (
            "A snarling animal on a chain keeps visitors away from the {place}.",
            "The watchdog at the {place} shows its teeth to everyone.",
            "Whoever comes near the {place} is chased by a big canine.",
        ),
    ),
    Situation(
        "tinker",
        (
            "The {thing} is broken and must be repaired.",
            "A part of the {thing} has snapped off; fix it.",
            "The {thing} no longer works; get it running again.",
            "Mend the {thing}, which fell apart.",
            "The {thing} has a crack that has to be glued.",
        ),
        (
            "The {thing} got damaged and wants to be put back in order.",
            "Something inside the {thing} came loose; it needs to be restored.",
            "The {thing} is in pieces; make it whole.",
        ),
    ),
    Situation(
        "tinker",
        (
            "The children at the {place} are bored and make noise.",
            "A school class runs wild at the {place}.",
            "The kids at the {place} quarrel and shout.",
            "Twenty pupils at the {place} have nothing to do.",
            "Small children cry at the {place}.",
        ),
        (
            "A crowd of restless youngsters turns the {place} upside down.",
            "The little ones at the {place} are loud because nobody plays with them.",
            "Schoolboys and schoolgirls at the {place} are up to mischief.",
        ),
    ),
    Situation(
        "registrar",
        (
            "A form about the {thing} must be filled in and stamped.",
            "The office wants a signed application for the {thing}.",
            "Apply for the permit that the {thing} needs.",
            "The paperwork for the {thing} is missing a stamp.",
            "Register the {thing} with the authorities.",
        ),
        (
            "Bureaucracy: the {thing} may not be used without an official licence.",
            "Complete the declaration on the {thing} and have it certified.",
            "The {thing} requires a written approval from the town hall.",
        ),
    ),
    Situation(
        "registrar",
        (
            "The cook at the {place} has run out of flour and eggs.",
            "There is nothing left to eat at the {place}.",
            "The kitchen of the {place} is empty before dinner.",
            "Guests at the {place} are hungry and the soup is gone.",
            "The bread at the {place} has been used up.",
        ),
        (
            "The pantry of the {place} is bare and mealtime is near.",
            "No food remains for the diners at the {place}.",
            "At the {place} the chef lacks ingredients for supper.",
        ),
    ),
    Situation(
        "watcher",
        (
            "Wait at the {place} until the {thing} arrives.",
            "Keep an eye on the {thing} through the night.",
            "Stay near the {place} and report when something changes.",
            "Somebody must guard the {thing} for some hours.",
            "Observe the {place} and note who comes and goes.",
        ),
        (
            "The {thing} must not be left alone; look after it till morning.",
            "Stand by at the {place} and tell us as soon as anything moves.",
            "Monitor the entrance of the {place} patiently.",
        ),
    ),
    Situation(
        "watcher",
        (
            "The musicians at the {place} have lost their sheet music.",
            "The band cannot play at the {place} without notes.",
            "The concert at the {place} has no singer.",
            "The piano at the {place} is there but nobody plays it.",
            "The choir at the {place} does not know which song to sing.",
        ),
        (
            "Tonight's recital at the {place} is in danger, as the melody is missing.",
            "An orchestra sits silent at the {place} for want of a score.",
            "The fiddlers at the {place} have no tune.",
        ),
    ),
)

HELPERS: dict[str, str] = {
    "librarian": "Looks things up in archives, books and records.",
    "courier": "Carries things through the town, fast and on time.",
    "negotiator": "Talks people round and settles prices.",
    "tinker": "Repairs broken things with tools and glue.",
    "registrar": "Fills in forms and gets permits and stamps from offices.",
    "watcher": "Waits, keeps watch and reports what happens.",
    "relay": "Repeats what the others said and adds nothing.",
}
"""Role by helper; `relay` passes on its input."""

THINGS = (
    "bell", "wagon", "clock", "statue", "printing press", "ladder", "sewing machine", "barrel", "lantern", "globe",
    "weather vane", "trunk", "telescope", "loom", "scales", "mirror", "anchor", "compass",
)  # fmt: skip
PLACES = (
    "harbour", "mill", "market hall", "tavern", "railway station", "old bridge", "town square", "brewery", "museum",
    "lighthouse", "bakery", "quarry", "theatre", "post office", "orchard", "boathouse",
)  # fmt: skip
PEOPLE = ("Alma", "Bruno", "Celia", "Dario", "Edda", "Fabian", "Greta", "Henrik", "Ines", "Jakob", "Karla", "Leon")

COMPLAINTS = (
    "Not settled: {name} is not content with what came back.",
    "The last attempt changed nothing, says {name}.",
    "{name} sent it back; it has to be tried again.",
)

"""Archive: generated multi-hop questions over generated documents.

There are two questions of different kinds about each neighbourhood of the world. Initial teams hold `search`; the
toolbox also has `browse`, which opens a whole document, for pools with a browser.
"""

import random
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

from selfwire.core.task import Feedback, Task
from selfwire.evals.benchmarks.benchmark import (
    RIGHT,
    Benchmark,
    RuleEnvironment,
    TrivialRule,
    make_answer_rule,
    make_disjoint_loader,
    refuse_size,
    reject,
)
from selfwire.tools.search import BrowseTool, Document, SearchTool

T = TypeVar("T")

_ONSETS = ("b", "br", "d", "dr", "f", "g", "gr", "k", "kl", "l", "m", "n", "p", "r", "s", "st", "t", "tr", "v", "z")
_VOWELS = ("a", "e", "i", "o", "u", "ae", "ei", "ou")
_ENDINGS = ("l", "m", "n", "r", "s", "th", "nd", "rk", "sk", "x")
_FIRST = (
    "Ada Alma Anton Beate Bruno Carla Conrad Dora Edgar Elsa Emil Erna Felix Frida Georg Greta Hugo Ida Ivo Jana Jonas "
    "Karl Klara Leo Lina Max Mira Nils Nora Oskar Paula Petra Ralf Rosa Simon Tilda Viktor Wanda"
).split()
_HOUSES = ("Institute", "Works", "Press", "Observatory", "Company", "Theatre", "Laboratory", "Foundry")
_BOOKS = ("Lantern", "Harbour", "Orchard", "Winter", "Bridge", "Garden", "Mirror", "Voyage")


@dataclass(frozen=True)
class Person:
    """A person with a page in the archive."""

    name: str
    born_year: int
    born_city: str
    university: str
    work: tuple[int, int]


@dataclass(frozen=True)
class House:
    """An institution."""

    name: str
    founder: str
    year: int
    city: str
    staff: tuple[str, ...]


@dataclass(frozen=True)
class Book:
    """A novel."""

    title: str
    author: str
    year: int


@dataclass(frozen=True)
class City:
    """A city."""

    name: str
    country: str
    population: int


@dataclass(frozen=True)
class Neighbourhood:
    """Pages that are linked to one another and to nothing else.

    Attributes:
        houses: two, with exactly one person on both staffs.
        people: the two founders, who are also the authors.
        colleagues: two of the first house's staff, whose years there overlap.
    """

    houses: tuple[House, House]
    people: tuple[Person, Person]
    colleagues: tuple[Person, Person]
    books: tuple[Book, Book]
    cities: tuple[City, City]

    @property
    def entities(self) -> tuple[str, ...]:
        """Names of everything that has a page."""
        pages = (*self.houses, *self.people, *self.colleagues, *self.cities)
        return tuple(sorted([*(page.name for page in pages), *(book.title for book in self.books)]))


class Names:
    """Invented names without repetition."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._taken: set[str] = set()

    def fresh(self) -> str:
        """Invent a new name."""
        while True:
            syllables = self._rng.choice((2, 2, 3))
            letters = [self._rng.choice(part) for _ in range(syllables) for part in (_ONSETS, _VOWELS)]
            name = "".join([*letters, self._rng.choice(_ENDINGS)]).capitalize()
            if name not in self._taken:
                self._taken.add(name)
                return name

    def person(self) -> str:
        """Invent a person's name: a common first name and a unique family name."""
        return f"{self._rng.choice(_FIRST)} {self.fresh()}"


def neighbourhood(names: Names, rng: random.Random) -> Neighbourhood:
    """Invent a neighbourhood."""
    cities = _two(lambda: City(names.fresh(), names.fresh(), rng.randrange(20_000, 900_000)))
    people = _two(lambda: _person(names, rng, rng.choice(cities).name, range(1840, 1865)))
    colleagues = _two(lambda: _person(names, rng, rng.choice(cities).name, range(1905, 1930)))
    start, late = rng.randrange(1950, 1970), rng.randrange(1, 6)
    end, later = start + late + rng.randrange(3, 12), rng.randrange(1, 9)
    spans = [(start, end), (start + late, end + later)]
    rng.shuffle(spans)
    first, second = (replace(colleague, work=span) for colleague, span in zip(colleagues, spans, strict=True))
    shared = names.person()
    staffs = [
        [first.name, second.name, shared, *(names.person() for _ in range(rng.randrange(0, 3)))],
        [shared, *(names.person() for _ in range(rng.randrange(2, 5)))],
    ]
    for staff in staffs:
        rng.shuffle(staff)
    years = rng.sample(range(1885, 1915), 2)
    prints = rng.sample(range(1880, 1920), 2)
    homes = rng.sample(cities, 2)
    houses = tuple(
        House(f"{names.fresh()} {rng.choice(_HOUSES)}", people[i].name, years[i], homes[i].name, tuple(staffs[i]))
        for i in (0, 1)
    )
    books = tuple(Book(f"The {rng.choice(_BOOKS)} of {names.fresh()}", people[i].name, prints[i]) for i in (0, 1))
    return Neighbourhood((houses[0], houses[1]), people, (first, second), (books[0], books[1]), cities)


def documents(place: Neighbourhood, rng: random.Random) -> list[Document]:
    """Make a document per page of the neighbourhood, each sentence in a random wording."""
    found = [Document(title=house.name, text=_of_house(house, rng)) for house in place.houses]
    found += [Document(title=person.name, text=_of_person(person, rng)) for person in place.people]
    home = place.houses[0].name
    for person in place.colleagues:
        found.append(Document(title=person.name, text=f"{_of_person(person, rng)} {_of_work(person, home, rng)}"))
    found += [Document(title=book.title, text=_of_book(book, rng)) for book in place.books]
    found += [Document(title=city.name, text=_of_city(city, rng)) for city in place.cities]
    return found


def _person(names: Names, rng: random.Random, city: str, births: range) -> Person:
    university = f"University of {names.fresh()}"
    return Person(names.person(), rng.choice(births), city, university, (0, 0))


def _two(make: Callable[[], T]) -> tuple[T, T]:
    return make(), make()


def _of_house(house: House, rng: random.Random) -> str:
    staff = f"{', '.join(house.staff[:-1])} and {house.staff[-1]}"
    origin = (
        f"{house.name} was founded in {house.year} by {house.founder}.",
        f"{house.name} was set up by {house.founder} in {house.year}.",
        f"{house.name} dates from another age. It was established in {house.year}. Its founder was {house.founder}.",
    )
    city = house.city
    seat = (f"It is based in {city}.", f"It is headquartered in {city}.", f"Its offices are in {city}.")
    people = (f"Over time its staff included {staff}.", f"{staff} worked there.")
    return " ".join(rng.choice(options) for options in (origin, seat, people))


def _of_person(person: Person, rng: random.Random) -> str:
    origin = (
        f"{person.name} was born in {person.born_year} in {person.born_city}.",
        f"{person.name}, a native of {person.born_city}, was born in {person.born_year}.",
        f"Born in {person.born_city} in {person.born_year}, {person.name} grew up with two sisters.",
    )
    name, university = person.name, person.university
    study = (f"{name} studied law at the {university}.", f"{name} was a graduate of the {university}.")
    habit = ("Letters and diaries survive.", "Little is known of later life.", "A street bears the name today.")
    return " ".join(rng.choice(options) for options in (origin, study, habit))


def _of_work(person: Person, house: str, rng: random.Random) -> str:
    start, end = person.work
    return rng.choice(
        (
            f"{person.name} worked at {house} from {start} to {end}.",
            f"{person.name} joined {house} in {start} and left in {end}.",
            f"{person.name} was employed at {house} from {start} until {end}.",
        )
    )


def _of_book(book: Book, rng: random.Random) -> str:
    origin = (f"{book.title} is a novel by {book.author}.", f"{book.title} was written by {book.author}.")
    press = (f"It was published in {book.year}.", f"It first appeared in print in {book.year}.")
    echo = ("Critics were divided.", "It was read widely.", "A film followed years afterwards.")
    return " ".join(rng.choice(options) for options in (origin, press, echo))


def _of_city(city: City, rng: random.Random) -> str:
    place = (f"{city.name} is a city in {city.country}.", f"{city.name} is an old port in {city.country}.")
    size = (f"It has a population of {city.population:,}.", f"It is home to {city.population:,} people.")
    sight = ("Its market is held on Fridays.", "A river runs through it.", "The old walls still stand.")
    return " ".join(rng.choice(options) for options in (place, size, sight))


Asked = tuple[str, str]
"""A question and its answer."""


def single(place: Neighbourhood, rng: random.Random) -> Asked:
    """Ask for a fact of a page."""
    house, person = rng.choice(place.houses), rng.choice(place.people)
    book, city = rng.choice(place.books), rng.choice(place.cities)
    return rng.choice(
        (
            (f"Who founded {house.name}?", house.founder),
            (f"In which city is {house.name} based?", house.city),
            (f"When was {house.name} founded?", str(house.year)),
            (f"In which city was {person.name} born?", person.born_city),
            (f"Which university did {person.name} attend?", person.university),
            (f"Who wrote {book.title}?", book.author),
            (f"In which country is {city.name}?", city.country),
            (f"How many people live in {city.name}?", str(city.population)),
        )
    )


def bridge(place: Neighbourhood, rng: random.Random) -> Asked:
    """Ask for a fact of a page that only another page names."""
    people = {person.name: person for person in place.people}
    cities = {city.name: city for city in place.cities}
    house, book = rng.choice(place.houses), rng.choice(place.books)
    founder, author, seat = people[house.founder], people[book.author], cities[house.city]
    return rng.choice(
        (
            (f"In which city was the founder of {house.name} born?", founder.born_city),
            (f"Which university did the founder of {house.name} attend?", founder.university),
            (f"In which year was the author of {book.title} born?", str(author.born_year)),
            (f"Which university did the author of {book.title} attend?", author.university),
            (f"In which country is the city where {house.name} is based?", seat.country),
            (f"How many people live in the city where {house.name} is based?", str(seat.population)),
        )
    )


def comparison(place: Neighbourhood, rng: random.Random) -> Asked:
    """Ask which of two values is earlier, later, larger or smaller."""
    houses = {house.name: house.year for house in place.houses}
    books = {book.title: book.year for book in place.books}
    cities = {city.name: city.population for city in place.cities}
    form, values = rng.choice(
        (
            ("Which was founded {word}, {names}?", houses),
            ("Which novel was published {word}, {names}?", books),
            ("Which city has {word} inhabitants, {names}?", cities),
        )
    )
    wants_more = rng.random() < 0.5
    word = ("more" if wants_more else "fewer") if values is cities else ("later" if wants_more else "earlier")
    names = " or ".join(rng.sample(sorted(values), 2))
    pick = max if wants_more else min
    return form.format(word=word, names=names), pick(values, key=lambda name: values[name])


def intersection(place: Neighbourhood, rng: random.Random) -> Asked:
    """Ask for the only name on both of two lists."""
    first, second = rng.sample(place.houses, 2)
    (shared,) = set(first.staff) & set(second.staff)
    return f"Who worked at both {first.name} and {second.name}?", shared


def temporal(place: Neighbourhood, rng: random.Random) -> Asked:
    """Ask how long two periods overlap."""
    first, second = rng.sample(place.colleagues, 2)
    question = f"For how many years did {first.name} and {second.name} both work at {place.houses[0].name}?"
    return question, str(min(first.work[1], second.work[1]) - max(first.work[0], second.work[0]))


def counting(place: Neighbourhood, rng: random.Random) -> Asked:
    """Ask how many names are in two lists together, or in a list without the other."""
    first, second = rng.sample(place.houses, 2)
    here, there = set(first.staff), set(second.staff)
    if rng.random() < 0.5:
        return f"How many different people worked at {first.name} or at {second.name}?", str(len(here | there))
    return f"How many people worked at {first.name} but not at {second.name}?", str(len(here - there))


KINDS: Mapping[str, Callable[[Neighbourhood, random.Random], Asked]] = {
    kind.__name__: kind for kind in (single, bridge, comparison, intersection, temporal, counting)
}
"""The function for each kind."""


FORM = "End with a line that starts with 'Answer:' and gives only the name, number or year."
"""Line below every question, so that any model knows what is graded."""

PAIRS: tuple[tuple[str, str], ...] = (
    ("single", "bridge"),
    ("single", "comparison"),
    ("single", "intersection"),
    ("single", "temporal"),
    ("single", "counting"),
    ("bridge", "comparison"),
    ("intersection", "temporal"),
    ("counting", "bridge"),
    ("comparison", "intersection"),
    ("temporal", "counting"),
)
"""Kinds of the two questions of a neighbourhood, in turn."""

MOST = 100_000
"""Most tasks of an archive, which take half a minute to generate; it stops a typing error from running forever."""

LONGEST = 8
"""Most words of a name, number or year."""


def make_task(
    id: str, kind: Callable[[Neighbourhood, random.Random], Asked], place: Neighbourhood, rng: random.Random
) -> Task:
    """Make the task of a question about a neighbourhood."""
    question, reference = kind(place, rng)
    return Task(id=id, input=f"{question}\n{FORM}", kind=kind.__name__, reference=reference, entities=place.entities)


@dataclass(frozen=True)
class Archive:
    """Generated tasks and the documents that answer them."""

    tasks: tuple[Task, ...]
    documents: tuple[Document, ...]


@dataclass(frozen=True)
class PartedArchive:
    """Generated tasks and the documents that answer them, by the part in which they lie."""

    tasks: tuple[Task, ...]
    documents: Mapping[str, Sequence[Document]]


@lru_cache(maxsize=4)
def generate_archive(size: int, seed: int = 0) -> Archive:
    """Generate `size` tasks and ten documents for every two; ConfigError if the size is not from 1 to `MOST`."""
    refuse_size(size, MOST, "tasks of an archive")
    rng = random.Random(f"archive {seed}")
    names = Names(rng)
    tasks: list[Task] = []
    pages: list[Document] = []
    while len(tasks) < size:
        place = neighbourhood(names, rng)
        pages += documents(place, rng)
        for kind in PAIRS[len(tasks) // 2 % len(PAIRS)]:
            tasks.append(make_task(f"archive-{seed}-{len(tasks)}", KINDS[kind], place, rng))
    rng.shuffle(pages)
    return Archive(tuple(tasks[:size]), tuple(pages))


def compare(task: Task, right: str, given: str) -> Feedback:
    """Normalised exact match; the text never depends on the reference."""
    return RIGHT if normalise(given) == normalise(right) else reject(_describe_error(task.input, given))


grade = make_answer_rule("archive", compare)
ENVIRONMENT = RuleEnvironment("archive", grade, "final_em")


def normalise(text: str) -> str:
    """Lower case, without accents, punctuation, articles, thousands separators and double spaces."""
    plain = unicodedata.normalize("NFKD", text.lower()).encode("ascii", "ignore").decode()
    plain = re.sub(r"(?<=\d),(?=\d{3})", "", plain)
    words = re.sub(r"[^\w\s]", " ", plain).split()
    return " ".join(word for word in words if word not in ("a", "an", "the"))


def choose_first_option(question: str) -> str:
    """The trivial baseline: the first of two options, and a fixed guess where there are none."""
    found = re.search(r", (.+?) or .+\?", question)
    guess = found[1] if found else "6" if question.lower().startswith(("how many", "for how many")) else "unknown"
    return f"Answer: {guess}"


def archive(size: int = 600, seed: int = 0) -> Benchmark:
    """The benchmark over one generated archive; splits have another seed."""
    made = generate_archive(size, seed)
    return Benchmark(
        name="archive",
        description="Generated multi-hop questions over generated documents, with a search tool.",
        load=make_disjoint_loader(lambda: made.tasks),
        environment=ENVIRONMENT,
        toolbox={"search": SearchTool(made.documents), "browse": BrowseTool(made.documents)},
        tools=("search",),
        baseline=TrivialRule("first option", choose_first_option),
    )


def _describe_error(question: str, given: str) -> str:
    """Describe the fault of an answer, by question and answer alone."""
    if normalise(given) in ("unknown", "not known", "i do not know", "n a", "none"):
        return "The answer leaves the question open."
    if len(given.split()) > LONGEST:
        return "Format fault: the answer is longer than a name, number or year."
    lowered = question.lower()
    if re.match(r"(?:for )?how many\b", lowered) and not re.search(r"\d", given):
        return "The answer is not a number."
    if re.match(r"when\b|in (?:which|what) year\b", lowered) and not re.search(r"\d{4}", given):
        return "The answer is not a year."
    if re.match(r"who\b|in which (?:city|country)\b", lowered) and re.search(r"\d", given):
        return "The answer is not a name."
    return "The answer is wrong."

"""The invented world of the archive: people, houses, books and cities, and the documents that describe them."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from selfwire.tools.search import Document

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
        books, cities: two each.
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
        """A new name."""
        while True:
            syllables = self._rng.choice((2, 2, 3))
            letters = [self._rng.choice(part) for _ in range(syllables) for part in (_ONSETS, _VOWELS)]
            name = "".join([*letters, self._rng.choice(_ENDINGS)]).capitalize()
            if name not in self._taken:
                self._taken.add(name)
                return name

    def person(self) -> str:
        """A common first name and a unique family name."""
        return f"{self._rng.choice(_FIRST)} {self.fresh()}"


def neighbourhood(names: Names, rng: random.Random) -> Neighbourhood:
    """Invent one neighbourhood."""
    cities = _two(lambda: City(names.fresh(), names.fresh(), rng.randrange(20_000, 900_000)))
    people = _two(lambda: _person(names, rng, rng.choice(cities).name, range(1840, 1865)))
    colleagues = _two(lambda: _person(names, rng, rng.choice(cities).name, range(1905, 1930)))
    start, late = rng.randrange(1950, 1970), rng.randrange(1, 6)
    end, later = start + late + rng.randrange(3, 12), rng.randrange(1, 9)
    spans = [(start, end), (start + late, end + later)]
    rng.shuffle(spans)
    first, second = (_working(one, span) for one, span in zip(colleagues, spans, strict=True))
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
    """One document per page of the neighbourhood, its sentences worded in one of several ways."""
    found = [Document(title=one.name, text=_of_house(one, rng)) for one in place.houses]
    found += [Document(title=one.name, text=_of_person(one, rng)) for one in place.people]
    home = place.houses[0].name
    for one in place.colleagues:
        found.append(Document(title=one.name, text=f"{_of_person(one, rng)} {_of_work(one, home, rng)}"))
    found += [Document(title=one.title, text=_of_book(one, rng)) for one in place.books]
    found += [Document(title=one.name, text=_of_city(one, rng)) for one in place.cities]
    return found


def _person(names: Names, rng: random.Random, city: str, births: range) -> Person:
    university = f"University of {names.fresh()}"
    return Person(names.person(), rng.choice(births), city, university, (0, 0))


def _working(one: Person, span: tuple[int, int]) -> Person:
    return Person(one.name, one.born_year, one.born_city, one.university, span)


def _two(make: Callable[[], T]) -> tuple[T, T]:
    return make(), make()


def _of_house(one: House, rng: random.Random) -> str:
    staff = f"{', '.join(one.staff[:-1])} and {one.staff[-1]}"
    origin = (
        f"{one.name} was founded in {one.year} by {one.founder}.",
        f"{one.name} was set up by {one.founder} in {one.year}.",
        f"{one.name} dates from another age. It was established in {one.year}. Its founder was {one.founder}.",
    )
    seat = (f"It is based in {one.city}.", f"It is headquartered in {one.city}.", f"Its offices are in {one.city}.")
    people = (f"Over time its staff included {staff}.", f"{staff} worked there.")
    return " ".join(rng.choice(options) for options in (origin, seat, people))


def _of_person(one: Person, rng: random.Random) -> str:
    origin = (
        f"{one.name} was born in {one.born_year} in {one.born_city}.",
        f"{one.name}, a native of {one.born_city}, was born in {one.born_year}.",
        f"Born in {one.born_city} in {one.born_year}, {one.name} grew up with two sisters.",
    )
    study = (f"{one.name} studied law at the {one.university}.", f"{one.name} was a graduate of the {one.university}.")
    habit = ("Letters and diaries survive.", "Little is known of later life.", "A street bears the name today.")
    return " ".join(rng.choice(options) for options in (origin, study, habit))


def _of_work(one: Person, house: str, rng: random.Random) -> str:
    start, end = one.work
    return rng.choice(
        (
            f"{one.name} worked at {house} from {start} to {end}.",
            f"{one.name} joined {house} in {start} and left in {end}.",
            f"{one.name} was employed at {house} from {start} until {end}.",
        )
    )


def _of_book(one: Book, rng: random.Random) -> str:
    origin = (f"{one.title} is a novel by {one.author}.", f"{one.title} was written by {one.author}.")
    press = (f"It was published in {one.year}.", f"It first appeared in print in {one.year}.")
    echo = ("Critics were divided.", "It was read widely.", "A film followed years afterwards.")
    return " ".join(rng.choice(options) for options in (origin, press, echo))


def _of_city(one: City, rng: random.Random) -> str:
    place = (f"{one.name} is a city in {one.country}.", f"{one.name} is an old port in {one.country}.")
    size = (f"It has a population of {one.population:,}.", f"It is home to {one.population:,} people.")
    sight = ("Its market is held on Fridays.", "A river runs through it.", "The old walls still stand.")
    return " ".join(rng.choice(options) for options in (place, size, sight))

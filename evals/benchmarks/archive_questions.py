"""Questions about a neighbourhood of the archive's world with their answers; one function per kind."""

import random
from collections.abc import Callable, Mapping

from selfwire.evals.benchmarks.archive_world import Neighbourhood, Person

Asked = tuple[str, str]
"""A question and its answer."""


def single(place: Neighbourhood, rng: random.Random) -> Asked:
    """One fact of one page."""
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
    """A fact of a page that only another page names."""
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
    """Two values of the same sort, and which is the earlier, later, larger or smaller one."""
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
    """The one name on two lists."""
    first, second = rng.sample(place.houses, 2)
    (shared,) = set(first.staff) & set(second.staff)
    return f"Who worked at both {first.name} and {second.name}?", shared


def temporal(place: Neighbourhood, rng: random.Random) -> Asked:
    """How long two periods overlap."""
    first, second = rng.sample(place.colleagues, 2)
    question = f"For how many years did {first.name} and {second.name} both work at {place.houses[0].name}?"
    return question, str(_shared_years(first, second))


def counting(place: Neighbourhood, rng: random.Random) -> Asked:
    """The number of names in two lists together, or in one without the other."""
    first, second = rng.sample(place.houses, 2)
    here, there = set(first.staff), set(second.staff)
    if rng.random() < 0.5:
        return f"How many different people worked at {first.name} or at {second.name}?", str(len(here | there))
    return f"How many people worked at {first.name} but not at {second.name}?", str(len(here - there))


def _shared_years(first: Person, second: Person) -> int:
    return min(first.work[1], second.work[1]) - max(first.work[0], second.work[0])


KINDS: Mapping[str, Callable[[Neighbourhood, random.Random], Asked]] = {
    "single": single,
    "bridge": bridge,
    "comparison": comparison,
    "intersection": intersection,
    "temporal": temporal,
    "counting": counting,
}
"""The function for each kind."""

"""Who has an account at the provider, and what it says of their mail address."""

from dataclasses import dataclass

PASSWORD = "a password of the provider, not of LabCarbon"
CLIENT_ID, CLIENT_SECRET = "labcarbon", "a-client-secret-of-the-tests"


@dataclass(frozen=True)
class Person:
    """``verified``: what stands in the claim email_verified."""

    name: str
    mail: str
    verified: object = True


PEOPLE = {
    person.name: person
    for person in (
        Person("ada", "ada@lab.example"),  # her address here was vouched for
        Person(
            "bob", "Bob@Lab.Example"
        ),  # his address stands in his account here, and nobody vouched for it
        Person("cleo", "cleo@lab.example"),  # links her account by hand
        Person("dan", "dan@lab.example"),  # has a second factor here
        Person("eve", "ada@lab.example", verified=False),  # says that Ada's address is hers
        Person("fay", "ada@lab.example", verified="false"),  # the same, by a text that is not empty
        Person("kim", "Kim@Lab.Example"),  # is invited
        Person("gus", "gus@elsewhere.example"),  # unknown here
        Person(
            "iris", "iris@lab.example"
        ),  # her address here was vouched for; she sits at a real browser
        Person("hal", "hal@lab.example"),  # linked, and closed here since
    )
}

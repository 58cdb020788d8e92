"""Twenty people accept one invitation concurrently. As a program: on its own installation."""

import threading
from collections import Counter

import django


def race(lab: object) -> list[str]:
    """Return the result of each of twenty threads: ``joined`` or an error code."""
    from django.db import connection

    from apps.accounts.choices import Role
    from apps.accounts.models import User
    from apps.accounts.services.invitations import accept_invitation, invite
    from apps.core.errors import LabCarbonError
    from tests.builders import T0

    _, code = invite(lab=lab.lab, role=Role.MEMBER, by=lab.owner, now=T0)  # type: ignore[attr-defined]
    people = [User.objects.create_user(f"racer-{i}") for i in range(20)]
    start, heard = threading.Barrier(20), []

    def accept(person: User) -> None:
        try:
            start.wait(30)
            accept_invitation(code=code, user=person, now=T0)
            heard.append("joined")
        except LabCarbonError as error:
            heard.append(error.code)
        except Exception as error:  # noqa: BLE001  # any failure of a thread fails the test
            heard.append(repr(error))
        finally:
            connection.close()

    threads = [threading.Thread(target=accept, args=(person,)) for person in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return heard


def main() -> None:
    """Run the race and print the results."""
    django.setup()
    from apps.accounts.audit import verify
    from tests.builders import small_lab

    lab = small_lab()
    for word, count in sorted(Counter(race(lab)).items()):
        print(count, word)
    print(lab.lab.memberships.count(), "members")
    print("chain", "fits" if verify(lab.lab) is None else "broken")


if __name__ == "__main__":
    main()

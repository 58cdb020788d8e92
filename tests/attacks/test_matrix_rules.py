"""What must hold in the whole matrix, whatever single rows say."""

from tests.attacks.test_matrix import ROWS

# Pages of one's own account, which a person has without a lab.
OWN = ("/accounts/", "/login-code/", "/invite/", "/setup/", "/signin/")


def test_an_ended_token_is_a_stranger_everywhere() -> None:
    for key, row in ROWS.items():
        assert row["expired"] == row["revoked"] == row["anonymous"], key


def test_a_node_token_reads_nothing_but_its_config() -> None:
    seen = {
        route
        for (route, method), row in ROWS.items()
        if method == "GET" and row["node"] != row["anonymous"]
    }
    assert {route for route in seen if ROWS[route, "GET"]["node"] == "200"} == {"/api/v1/config/"}


def test_somebody_who_was_removed_sees_only_what_is_public_or_their_own_account() -> None:
    for (route, method), row in ROWS.items():
        if not route.startswith(OWN):
            assert row["removed"] in {"403", row["anonymous"]}, (route, method)


def test_no_role_may_do_what_a_higher_one_is_forbidden() -> None:
    for (route, method), row in ROWS.items():
        if "/people/<int:person>/" in route or row["member"] == "404":
            continue  # their own page; things that are not there for them
        ladder = [row[role] == "403" for role in ("viewer", "member", "pi", "admin")]
        assert ladder == sorted(ladder, reverse=True), (route, method, row)

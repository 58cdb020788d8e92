"""The activities of a billed month: computed from its items, recorded, and withdrawn."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from django.db import transaction

from apps.accounts import audit
from apps.accounts.models import User
from apps.activity.drafts import Draft
from apps.activity.services.activities import Preview, preview_activity, store_activities
from apps.activity.services.lookups import Lookups
from apps.activity.services.withdrawals import archived_activities, withdraw_activities
from apps.billing.choices import Category, Charge
from apps.billing.models import BilledMonth, BilledUse, BillingItem
from apps.billing.uses import VCPU, Use, UseKey, digest_of, draft_of
from apps.core.errors import InvalidInput, LabCarbonError
from apps.core.jobs import enqueue, renew_lease

BATCH = 500


@dataclass(frozen=True)
class ComputedUse:
    """A use with its activity, or why its energy is unknown."""

    use: Use
    draft: Draft
    digest: str
    computed: Preview | None
    problem: str = ""


def uses_of(month: BilledMonth) -> list[Use]:
    """Return the use of the items of a month, without the hours of collectors."""
    items = (
        BillingItem.objects.filter(month=month, charge=Charge.USAGE)
        .exclude(category=Category.NONE)
        .exclude(amount_millionths=0)
        .select_related("project")
        .order_by("start_us", "pk")
    )
    uses: dict[UseKey, Use] = {}
    for item in items.iterator(chunk_size=2_000):
        key = UseKey(
            item.start_us,
            item.end_us,
            item.category,
            item.instance_type,
            item.gpu,
            item.medium,
            item.region,
            item.project.slug if item.project else "",
        )
        use = uses.setdefault(key, Use(key))
        use.amount_millionths += item.amount_millionths - item.covered_millionths
        use.item_ids.append(item.pk)
    return list(uses.values())


def compute_uses(month: BilledMonth, now: int) -> list[ComputedUse]:
    """Return the uses of a month that ended, with their activities."""
    computed = []
    lookups = Lookups(month.lab)
    utilization = month.file.options.get("utilization", "")
    for number, use in enumerate(uses_of(month)):
        if not number % BATCH:
            renew_lease()
        if use.key.end_us > now or not use.amount_millionths:
            continue
        draft = draft_of(month.provider, use, utilization)
        digest = digest_of(month.provider, month.account, month.month, draft)
        preview, problem = None, ""
        try:
            preview = _preview(lookups, use, draft, now)
        except LabCarbonError as error:
            problem = f"{error.message} {error.hint or ''}".strip()
        computed.append(ComputedUse(use, draft, digest, preview, problem))
    return computed


def _preview(lookups: Lookups, use: Use, draft: Draft, now: int) -> Preview:
    if use.amount_millionths < 0:
        raise InvalidInput(
            "The billed amount is negative.", hint="A later export may contain the whole use."
        )
    if not use.key.region:
        raise InvalidInput("The export states no region.", hint="Include it in the export.")
    try:
        return preview_activity(lab=lookups.lab, draft=draft, now=now, lookups=lookups)
    except InvalidInput as error:
        if error.field == "vcpus" and use.key.instance_type not in ("", VCPU):
            raise InvalidInput(
                f"The size of the instance type {use.key.instance_type} is unknown.",
                hint="Record its hours as an activity, with vCPUs and memory.",
            ) from error
        raise


def save_results(month: BilledMonth, uses: Sequence[ComputedUse]) -> None:
    """Save number and energy of the activities of a month, and the problems of its items."""
    month.number_of_uses = month.energy_mj = 0
    problems: dict[str, list[int]] = {}
    for each in uses:
        if each.computed is None:
            problems.setdefault(each.problem[:300], []).extend(each.use.item_ids)
        else:
            month.number_of_uses += 1
            month.energy_mj += each.computed.estimate.energy_mj
    BillingItem.objects.filter(month=month).exclude(problem="").update(problem="")
    for problem, ids in problems.items():
        for start in range(0, len(ids), BATCH):
            BillingItem.objects.filter(pk__in=ids[start : start + BATCH]).update(problem=problem)
    month.save(update_fields=["number_of_uses", "energy_mj"])


def replacement_problem(
    month: BilledMonth, previous: BilledMonth, uses: Sequence[ComputedUse]
) -> str:
    """Return why the activities of a month cannot be replaced, '' if they can: archived ones
    cannot be withdrawn. ``previous``: the earlier version, or the month itself.
    """
    wanted = {each.digest for each in uses if each.computed}
    outdated = [
        use.activity
        for use in previous.uses.select_related("activity", "activity__device")
        if use.digest not in wanted and use.activity.withdrawn_us is None
    ]
    if not archived_activities(outdated):
        return ""
    return (
        f"{month.month} of account {month.account} was not replaced: energy of the earlier version "
        "is archived. Correct the figures by a restatement."
    )


def _is_current(month: BilledMonth) -> bool:
    """Return whether no later version replaced a month. The caller holds the lab."""
    return BilledMonth.objects.filter(pk=month.pk, is_current=True).exists()


def record_uses(
    *, month: BilledMonth, computed: Sequence[ComputedUse], by: User | None, now: int
) -> Iterator[int]:
    """Withdraw the activities of a month that its items do not have any more, and record those
    that are missing, in batches. Yield the number of activities changed after each batch.
    """
    wanted = {each.digest: each for each in computed if each.computed}
    uses = BilledUse.objects.filter(month=month).select_related("activity", "activity__device")
    existing = {use.digest: use for use in uses}
    outdated = iter([use for digest, use in existing.items() if digest not in wanted])
    while ids := [use.pk for use in islice(outdated, BATCH)]:
        with transaction.atomic():
            audit.hold(month.lab)
            if not _is_current(month):
                return
            batch = list(uses.filter(pk__in=ids))
            withdraw_activities(
                activities=[use.activity for use in batch],
                reason=f"Replaced by version {month.version} of the billing export",
                by=by,
                now=now,
            )
            BilledUse.objects.filter(pk__in=[use.pk for use in batch]).delete()
        yield len(batch)
    missing = iter([each for digest, each in wanted.items() if digest not in existing])
    while part := list(islice(missing, BATCH)):
        with transaction.atomic():
            audit.hold(month.lab)
            if not _is_current(month):
                return
            stored_digests = set(uses.values_list("digest", flat=True))
            found = [each for each in part if each.digest not in stored_digests]
            stored, refused = store_activities(
                computed=[(each.draft, each.computed) for each in found if each.computed],
                lookups=Lookups(month.lab),
                by=by,
                origin=f"billing {month.file.name}",
                now=now,
            )
            recorded = [each for i, each in enumerate(found) if i not in refused]
            BilledUse.objects.bulk_create(
                (
                    BilledUse(month=month, digest=each.digest, activity=activity)
                    for each, activity in zip(recorded, stored, strict=True)
                ),
                batch_size=BATCH,
            )
            for position, error in refused.items():
                ids = found[position].use.item_ids
                BillingItem.objects.filter(pk__in=ids).update(problem=error.message[:300])
        yield len(part)
    if wanted.keys() != existing.keys():
        enqueue(kind="attribution.lab", key=str(month.lab_id))

"""Topics: their names are a contract with other programs."""

from shoal.streams.kafka.topics import Topics


def test_every_name_is_the_contracts() -> None:
    topics = Topics("patients")
    assert topics.events == "shoal.patients.events"
    assert topics.external == "shoal.patients.external"
    assert topics.triggers == "shoal.patients.triggers"
    assert topics.releases == "shoal.patients.releases"
    assert topics.dead_letter == "shoal.patients.dead-letter"


def test_no_two_tables_share_a_name_or_a_transactional_id() -> None:
    one, two = Topics("a"), Topics("a.b")
    names = [
        {t.events, t.triggers, t.releases, t.dead_letter, t.publisher, t.ingest_group, t.dead_letter_producer("0")}
        for t in (one, two)
    ]
    assert not names[0] & names[1]
    assert one.dead_letter_producer("0") != one.dead_letter_producer("triggers")

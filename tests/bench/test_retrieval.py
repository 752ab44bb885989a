from bench import retrieval


def test_build_latency_and_memory_of_both_retrievers_are_measured() -> None:
    rows = retrieval.measure_retrieval(passages=300)
    assert [row.unit for row in rows] == ["s", "MB", "MB", "ms", "ms", "MB", "ms", "ms"]
    assert all(row.value >= 0 for row in rows)


def test_its_corpus_is_the_same_every_time() -> None:
    documents, queries = retrieval.make_corpus(20)
    assert (documents, queries) == retrieval.make_corpus(20)
    assert len(documents) == 20
    assert len(queries[0].split()) == retrieval.QUERY_WORDS

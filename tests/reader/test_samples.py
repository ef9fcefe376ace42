import numpy as np

from dtsflow.reader.store import Samples

MEMORY = np.frombuffer(b"aabbbc", np.uint8)


def samples() -> Samples:
    return Samples(
        MEMORY,
        offsets=np.array([0, 2, 5]),
        sizes=np.array([2, 3, 1]),
        labels=np.array([7, 8, 9], np.int32),
        ids=np.array([70, 80, 90]),
        refused={1: "its block is damaged"},
    )


def test_a_sample_is_its_bytes_in_the_memory_of_the_reader() -> None:
    assert [bytes(samples().data(i)) for i in range(3)] == [b"aa", b"bbb", b"c"]


def test_a_choice_is_numbered_anew_with_all_that_was_said_of_it() -> None:
    chosen = samples().only(np.array([2, 1]))
    assert [bytes(chosen.data(i)) for i in range(2)] == [b"c", b"bbb"]
    assert chosen.labels.tolist() == [9, 8]
    assert chosen.ids.tolist() == chosen.draw_ids.tolist() == [90, 80]
    assert chosen.refused == {1: "its block is damaged"}
    assert samples().only(np.array([0, 2])).refused == {}


def test_a_substitute_takes_the_draws_of_what_it_stands_for() -> None:
    one = samples()
    other = Samples(one.memory, one.offsets, one.sizes, one.labels, one.ids, stands_for=one.ids + 1)
    assert other.draw_ids.tolist() == [71, 81, 91]
    assert other.only(np.array([2])).draw_ids.tolist() == [91]
    assert one.draw_ids.tolist() == one.ids.tolist()

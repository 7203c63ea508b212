from normscope.training.observer import Observer, Progress, Several


class Kept(Observer):
    def __init__(self, every=0) -> None:
        self.every, self.told = every, []

    def note(self, text) -> None:
        self.told.append(text)

    def images(self, doing, done, of) -> None:
        self.told.append(doing)

    def parts(self, doing, done, of) -> None:
        self.told.append(doing)

    def step(self, progress) -> None:
        self.told.append(progress.step)

    def epoch(self, progress, method, reference) -> None:
        self.told.append(("epoch", progress.epoch))

    def finished(self, card) -> None:
        self.told.append(card)


def test_each_is_told_everything_and_epochs_as_often_as_it_wants():
    never, second, third = Kept(), Kept(2), Kept(3)
    several = Several([never, second, third])
    assert several.every == 1
    several.note("advice")
    several.images("reading", 1, 2)
    several.parts("calibrating", 1, 2)
    for epoch in range(1, 7):
        now = Progress("training", epoch, 6, epoch, 0.0, {})
        several.step(now)
        several.epoch(now, None, None)
    several.finished({"method": "x"})
    assert never.told == ["advice", "reading", "calibrating", 1, 2, 3, 4, 5, 6, {"method": "x"}]
    assert [one for one in second.told if isinstance(one, tuple)] == [("epoch", 2), ("epoch", 4), ("epoch", 6)]
    assert [one for one in third.told if isinstance(one, tuple)] == [("epoch", 3), ("epoch", 6)]


def test_nobody_who_wants_epochs_costs_no_pass_over_the_images():
    assert Several([Kept(), Kept()]).every == 0
    assert Several([]).every == 0

from rci.engines.progress import count, show_share


def test_where_there_is_no_terminal_nothing_is_shown(capsys):
    with show_share("import") as tell:
        tell(0.5)
        tell(1.0)
    assert count(iter("abc"), 3, "letters") == ["a", "b", "c"]
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "")

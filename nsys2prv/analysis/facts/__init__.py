"""Facts of a run that rules of findings ask for. None makes a finding.

Here: what each rule gets (`case`), what the rules decide by (`thresholds`), and what a case is made of. In the folders,
each of which imports those after it: facts on `ranks`, `hosts`, `communication` and `devices`, one question a module,
with the words of advice on it that several rules give.
"""

"""Facts of a run that rules of findings ask for: whom ranks wait for, why devices idle, what hosts do meanwhile.

`case` has what each rule gets, `thresholds` what they decide by. Each other module answers one question, and has the
words of advice on it that several rules give. None makes a finding.
"""

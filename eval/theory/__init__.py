"""The paper's theory as numbers: one module for each claim, all run by `rnce bench theory`.

A module has one public function that computes its claim and returns plain numbers; `figures` draws them, `statements`
puts them beside the paper's sentences, `bench` runs everything.
"""

"""How good a policy is: rollouts, metrics with intervals, comparisons, tables, pictures and reports."""

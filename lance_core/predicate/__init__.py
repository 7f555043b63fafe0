"""Predicates: SQL text and Arrow expressions that select the rows of a batch.

``tokenizer`` and ``parser`` define the SQL dialect for sqlglot; ``reading`` converts sqlglot's expressions to
the nodes of ``syntax``; ``arrow_expressions`` converts Arrow expressions to the same nodes; ``binding`` assigns types
and builds a tree of ``expressions``, which can be evaluated. ``predicate`` is the entry point.

SQL that ``reading`` or ``binding`` refuses is evaluated by DataFusion: ``sql_text`` prepares the text, ``literals``
gives literals the types of columns, and ``engine`` plans and evaluates the expressions.
"""

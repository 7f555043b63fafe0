"""Operations of transactions: one module for each operation that can be executed."""

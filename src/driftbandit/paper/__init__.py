"""The paper's tables and figures, one file each: ours beside the paper's."""

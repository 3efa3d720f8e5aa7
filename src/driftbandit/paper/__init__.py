"""The paper's tables and figures, one file each: our numbers beside the paper's."""

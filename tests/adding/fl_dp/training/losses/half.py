"""Half written: it cannot be imported."""

import no_such_package

LOSS = no_such_package

"""Half written: it cannot be imported."""

import no_such_package

SOURCE = no_such_package

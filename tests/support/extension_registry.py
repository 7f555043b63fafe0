"""Switching between the Arrow extension types of pylance and lance_core, which have the same names.

pylance's module cannot be imported after another library has registered the types. Therefore, tests that import
lance_core.arrow import lance.arrow before it.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType

import lance.arrow
import pyarrow as pa

NAMES = (
    "lance.bfloat16",
    "lance.arrow.image_uri",
    "lance.arrow.encoded_image",
    "lance.arrow.fixed_shape_image_tensor",
)


@contextmanager
def types_of(module: ModuleType) -> Iterator[None]:
    """Register the types of ``lance.arrow`` or ``lance_core.arrow``; afterward, those of ``lance.arrow`` again."""
    try:
        _register(module)
        yield
    finally:
        _register(lance.arrow)


def _register(module: ModuleType) -> None:
    for name in NAMES:
        with suppress(pa.ArrowKeyError):
            pa.unregister_extension_type(name)
    tensors = module.FixedShapeImageTensorType(pa.uint8(), (0,))
    for dtype in (module.BFloat16Type(), module.ImageURIType(), module.EncodedImageType(), tensors):
        pa.register_extension_type(dtype)

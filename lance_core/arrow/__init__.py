"""Arrow extension types that pylance defines: bfloat16 numbers and images; the names follow ``lance.arrow``.

This is a public module::

    from lance_core.arrow import ImageURIArray, bfloat16_array

    pixels = ImageURIArray.from_uris(["/data/1.png"]).read_uris().to_tensor()
    weights = bfloat16_array([0.5, None, 2])

Importing this module registers the types with Arrow. From then on, columns of these types are read as extension types;
before, they are read as their storage types. If another library in the process, such as pylance, has already registered
types with the same names, Arrow continues to use those.

===================  ===================================================================
``bfloat16``         the scalar, the array and the type of bfloat16 numbers
``pandas_bfloat16``  the same numbers as pandas extension arrays; requires pandas
``casts``            ``cast``, which also converts to and from bfloat16
``images``           arrays of image URIs, of encoded images, and of pixels
``image_codecs``     decodes and encodes images with Pillow, if the caller has no codec
``image_files``      reads the files that URIs refer to
``registration``     registers a type with Arrow
===================  ===================================================================
"""

from contextlib import suppress
from typing import TYPE_CHECKING

from lance_core.arrow.bfloat16 import BFloat16, BFloat16Array, BFloat16Type, bfloat16_array
from lance_core.arrow.casts import cast
from lance_core.arrow.images import (
    EncodedImageArray,
    EncodedImageScalar,
    EncodedImageType,
    FixedShapeImageTensorArray,
    FixedShapeImageTensorScalar,
    FixedShapeImageTensorType,
    ImageArray,
    ImageScalar,
    ImageURIArray,
    ImageURIScalar,
    ImageURIType,
)

if TYPE_CHECKING:
    from lance_core.arrow.pandas_bfloat16 import PandasBFloat16Array
else:
    with suppress(ImportError):  # Without pandas, there is no such name.
        from lance_core.arrow.pandas_bfloat16 import PandasBFloat16Array

__all__ = [
    "BFloat16",
    "BFloat16Array",
    "BFloat16Type",
    "EncodedImageArray",
    "EncodedImageScalar",
    "EncodedImageType",
    "FixedShapeImageTensorArray",
    "FixedShapeImageTensorScalar",
    "FixedShapeImageTensorType",
    "ImageArray",
    "ImageScalar",
    "ImageURIArray",
    "ImageURIScalar",
    "ImageURIType",
    "PandasBFloat16Array",
    "bfloat16_array",
    "cast",
]

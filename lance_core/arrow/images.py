"""Arrays of images: as URIs of files, as the contents of such files, and as pixels.

============================  ===========================================  ===================================
Array                         Type and its extension name                  Conversion
============================  ===========================================  ===================================
``ImageURIArray``             ``lance.arrow.image_uri``                    ``read_uris``: to encoded images
``EncodedImageArray``         ``lance.arrow.encoded_image``                ``to_tensor``: to pixels
``FixedShapeImageTensorArray``  ``lance.arrow.fixed_shape_image_tensor``   ``to_encoded``, ``to_numpy``
============================  ===========================================  ===================================

**Source:** ``lance.arrow`` of pylance 14.0.2. Unlike pylance, this module can read arrays with nulls.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lance_core.arrow.image_codecs import decode_images, png_encoder
from lance_core.arrow.image_files import read_files
from lance_core.arrow.registration import register
from lance_core.errors import InvalidInputError, InvalidTypeError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = [
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
]

_URI_NAME: Final = "lance.arrow.image_uri"
_ENCODED_NAME: Final = "lance.arrow.encoded_image"
_TENSOR_NAME: Final = "lance.arrow.fixed_shape_image_tensor"
_STRINGS: Final = (pa.string(), pa.large_string())
_BINARIES: Final = (pa.binary(), pa.large_binary())
_SHOWN_BYTES: Final = 30


class ImageScalar(pa.ExtensionScalar):  # type: ignore[misc]  # pyarrow has no types
    """One value of an :class:`ImageArray`."""

    def as_py(self, **kwargs: Any) -> Any:
        """Return the value of the storage type; None for a null."""
        return None if self.value is None else self.value.as_py(**kwargs)


class ImageURIScalar(ImageScalar):
    """One value of an :class:`ImageURIArray`."""


class EncodedImageScalar(ImageScalar):
    """One value of an :class:`EncodedImageArray`."""


class FixedShapeImageTensorScalar(ImageScalar):
    """One value of a :class:`FixedShapeImageTensorArray`: its numbers in one list."""


class ImageArray(pa.ExtensionArray):  # type: ignore[misc]  # pyarrow has no types
    """The base class of arrays of images."""

    @classmethod
    def from_array(
        cls, images: pa.Array | Iterable[str]
    ) -> ImageURIArray | EncodedImageArray | FixedShapeImageTensorArray:
        """Create an array of images from strings (URIs), binary values (encoded images), or tensors (pixels).

        Raises:
            InvalidTypeError: the images are of another type.
        """
        if isinstance(images, ImageArray):
            return images
        if isinstance(images, pa.FixedShapeTensorArray):
            dtype = FixedShapeImageTensorType(images.type.value_type, images.type.shape)
            tensors: FixedShapeImageTensorArray = pa.ExtensionArray.from_storage(dtype, images.storage)
            return tensors
        if isinstance(images, pa.Array) and images.type in _BINARIES:
            encoded: EncodedImageArray = pa.ExtensionArray.from_storage(EncodedImageType(images.type), images)
            return encoded
        return ImageURIArray.from_uris(images)

    def __repr__(self) -> str:
        return f"<lance_core.arrow.{type(self).__name__} object at {id(self):#018x}>\n{self.to_pylist()!r}"


class ImageURIArray(ImageArray):
    """An array of image URIs: paths of local files, or URIs of files on the web or in an object store."""

    @classmethod
    def from_uris(cls, uris: pa.Array | Iterable[str | Path]) -> ImageURIArray:
        """Create an array from an Arrow array of strings, or from strings and paths.

        Raises:
            InvalidTypeError: the URIs have another type.
        """
        if isinstance(uris, pa.Array):
            if uris.type not in _STRINGS:
                raise InvalidTypeError(f"image URIs must be strings, found an array of type {uris.type}")
            storage = uris
        elif isinstance(uris, Iterable):
            storage = pa.array((None if uri is None else str(uri) for uri in uris), type=pa.string())
        else:
            raise InvalidTypeError(f"image URIs must be an Arrow array or an iterable, found {type(uris).__name__}")
        array: ImageURIArray = pa.ExtensionArray.from_storage(ImageURIType(storage.type), storage)
        return array

    def read_uris(self, storage_type: pa.DataType = _BINARIES[0]) -> EncodedImageArray:
        """Read the files into memory.

        Args:
            storage_type: ``pa.binary()``, or ``pa.large_binary()`` for more than 2 GiB.

        Returns:
            The contents of the files. Nulls remain null. If a web server does not deliver a file, a warning is issued,
            and the result contains a null.

        Raises:
            InvalidInputError: the storage type is not a binary type.
            OSError: a file cannot be read.
            ValueError: a URI is invalid, or a path is relative.
        """
        dtype = EncodedImageType(storage_type)
        files = read_files(self.storage.to_pylist())
        array: EncodedImageArray = pa.ExtensionArray.from_storage(dtype, pa.array(files, type=storage_type))
        return array


class EncodedImageArray(ImageArray):
    """An array of image files. Their format is not recorded, but usually the first bytes of a file show it."""

    def to_tensor(
        self, decoder: Callable[[pa.Array], np.ndarray[Any, Any] | pa.FixedShapeTensorArray] | None = None
    ) -> FixedShapeImageTensorArray:
        """Decode the images, which must all have the same shape.

        Args:
            decoder: converts a binary array to a numpy array whose first dimension has one entry per image, or to an
                Arrow array of tensors. The default uses Pillow.

        Raises:
            InvalidInputError: the array contains nulls, the shapes differ, or Pillow is needed but not installed.
        """
        if self.null_count:
            raise InvalidInputError(f"cannot decode null images: {self.null_count} of {len(self)} images are null")
        tensors = (decoder or decode_images)(self.storage)
        if isinstance(tensors, np.ndarray):
            value_type, shape = pa.from_numpy_dtype(tensors.dtype), tensors.shape[1:]
            storage = pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(tensors)).storage
        else:
            value_type, shape, storage = tensors.type.value_type, tensors.type.shape, tensors.storage
        dtype = FixedShapeImageTensorType(value_type, shape)
        array: FixedShapeImageTensorArray = pa.ExtensionArray.from_storage(dtype, storage)
        return array

    def __repr__(self) -> str:
        shown = [None if image is None else image[:_SHOWN_BYTES] for image in self.to_pylist()]
        return f"<lance_core.arrow.{type(self).__name__} object at {id(self):#018x}>\n{shown!r}"


class FixedShapeImageTensorArray(ImageArray):
    """An array of images of the same shape, stored as pixels."""

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """Return a numpy array whose first dimension is the number of images."""
        dtype = pa.fixed_shape_tensor(self.storage.type.value_type, self.type.shape)
        pixels: np.ndarray[Any, Any] = pa.ExtensionArray.from_storage(dtype, self.storage).to_numpy_ndarray()
        return pixels

    def to_encoded(
        self,
        encoder: Callable[[np.ndarray[Any, Any]], pa.Array] | None = None,
        storage_type: pa.DataType = _BINARIES[0],
    ) -> EncodedImageArray:
        """Encode the images, by default as PNG files.

        Args:
            encoder: converts a numpy array, as returned by :meth:`to_numpy`, to an array of ``storage_type``. The
                default uses Pillow.
            storage_type: ``pa.binary()``, or ``pa.large_binary()`` for more than 2 GiB.

        Raises:
            InvalidInputError: Pillow is needed but not installed, or the storage type is not a binary type.
            TypeError: the encoder returned something other than an array of the storage type.
        """
        dtype = EncodedImageType(storage_type)
        files = (encoder or png_encoder(storage_type))(self.to_numpy())
        array: EncodedImageArray = pa.ExtensionArray.from_storage(dtype, files)
        return array


class _ImageType(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """Base class of the image types."""

    def __arrow_ext_serialize__(self) -> bytes:  # pyarrow's name
        """Return an empty string, because the type has no parameters other than its storage type."""
        return b""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle through the storage type."""
        return type(self).__arrow_ext_deserialize__, (self.storage_type, self.__arrow_ext_serialize__())


class ImageURIType(_ImageType):
    """The type of :class:`ImageURIArray`, stored as ``string`` or ``large_string``."""

    def __init__(self, storage_type: pa.DataType = _STRINGS[0]) -> None:
        if storage_type not in _STRINGS:
            raise InvalidInputError(f"the storage type of image URIs must be a string type, found {storage_type}")
        pa.ExtensionType.__init__(self, storage_type, _URI_NAME)

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> ImageURIType:  # pyarrow's name
        """Create the type for a column read from a file or received from another library."""
        return cls(storage_type)

    def __arrow_ext_class__(self) -> type[ImageURIArray]:  # pyarrow's name
        """Return the array class of the type."""
        return ImageURIArray

    def __arrow_ext_scalar_class__(self) -> type[ImageURIScalar]:  # pyarrow's name
        """Return the scalar class of the type."""
        return ImageURIScalar


class EncodedImageType(_ImageType):
    """The type of :class:`EncodedImageArray`, stored as ``binary`` or ``large_binary``."""

    def __init__(self, storage_type: pa.DataType = _BINARIES[0]) -> None:
        if storage_type not in _BINARIES:
            raise InvalidInputError(f"the storage type of encoded images must be a binary type, found {storage_type}")
        pa.ExtensionType.__init__(self, storage_type, _ENCODED_NAME)

    @classmethod
    def __arrow_ext_deserialize__(  # pyarrow's name
        cls, storage_type: pa.DataType, serialized: bytes
    ) -> EncodedImageType:
        """Create the type for a column read from a file or received from another library."""
        return cls(storage_type)

    def __arrow_ext_class__(self) -> type[EncodedImageArray]:  # pyarrow's name
        """Return the array class of the type."""
        return EncodedImageArray

    def __arrow_ext_scalar_class__(self) -> type[EncodedImageScalar]:  # pyarrow's name
        """Return the scalar class of the type."""
        return EncodedImageScalar


class FixedShapeImageTensorType(_ImageType):
    """The type of :class:`FixedShapeImageTensorArray`, stored as a fixed-size list of numbers.

    Attributes:
        arrow_type: the type of the numbers.
        shape: the shape of one image, for example height, width, and channels.
    """

    def __init__(self, arrow_type: pa.DataType, shape: Sequence[int]) -> None:
        if not len(shape):
            raise InvalidInputError("the shape of an image must have at least one dimension")
        self.shape = shape
        self.arrow_type = arrow_type
        pa.ExtensionType.__init__(self, pa.list_(arrow_type, int(np.prod(shape))), _TENSOR_NAME)

    def __arrow_ext_serialize__(self) -> bytes:  # pyarrow's name
        """Return the shape, as JSON."""
        return json.dumps({"shape": list(self.shape)}).encode()

    @classmethod
    def __arrow_ext_deserialize__(  # pyarrow's name
        cls, storage_type: pa.DataType, serialized: bytes
    ) -> FixedShapeImageTensorType:
        """Create the type for a column read from a file or received from another library."""
        shape = json.loads(serialized)["shape"]
        dtype = cls(storage_type.value_type, shape)
        if dtype.storage_type.list_size != storage_type.list_size:
            raise TypeError(f"images of shape {shape} require storage type {dtype.storage_type}, found {storage_type}")
        return dtype

    def __arrow_ext_class__(self) -> type[FixedShapeImageTensorArray]:  # pyarrow's name
        """Return the array class of the type."""
        return FixedShapeImageTensorArray

    def __arrow_ext_scalar_class__(self) -> type[FixedShapeImageTensorScalar]:  # pyarrow's name
        """Return the scalar class of the type."""
        return FixedShapeImageTensorScalar


for _dtype in (ImageURIType(), EncodedImageType(), FixedShapeImageTensorType(pa.uint8(), (0,))):
    register(_dtype)

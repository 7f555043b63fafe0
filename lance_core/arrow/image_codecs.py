"""Decodes and encodes images with Pillow; used if the caller does not pass functions for this.

**Source:** ``lance.arrow`` of pylance 14.0.2: encoded images are PNG files.
"""

from __future__ import annotations

import io
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lance_core.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

__all__ = ["decode_images", "png_encoder"]


def decode_images(images: pa.Array) -> np.ndarray[Any, Any]:
    """Return the pixels of images in any format that Pillow recognizes; the first dimension is the number of images.

    Raises:
        InvalidInputError: Pillow is not installed, there are no images, or their shapes differ.
    """
    pillow = _pillow("decoder")
    if not len(images):
        raise InvalidInputError("cannot determine the shape of images: the array is empty")
    pixels = [np.asarray(pillow.open(io.BytesIO(image))) for image in images.to_pylist()]
    shapes = sorted({each.shape for each in pixels})
    if len(shapes) > 1:
        raise InvalidInputError(f"all images of an array must have the same shape, found {shapes}")
    return np.stack(pixels)


def png_encoder(storage_type: pa.DataType) -> Callable[[np.ndarray[Any, Any]], pa.Array]:
    """Return a function that encodes images as PNG files, in an array of the given type.

    Raises:
        InvalidInputError: Pillow is not installed.
    """
    pillow = _pillow("encoder")

    def encode(images: np.ndarray[Any, Any]) -> pa.Array:
        files = []
        for image in images:
            with io.BytesIO() as file:
                pillow.fromarray(image).save(file, format="PNG")
                files.append(file.getvalue())
        return pa.array(files, type=storage_type)

    return encode


def _pillow(role: str) -> ModuleType:
    try:
        return import_module("PIL.Image")
    except ModuleNotFoundError as error:
        raise InvalidInputError(
            f"no image {role} is available; install Pillow with 'pip install pillow', or pass the argument {role!r}"
        ) from error

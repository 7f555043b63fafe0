"""Arrays of image URIs, encoded images and pixels, and the conversions between them, compared with pylance."""

import pickle
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import lance.arrow
import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from lance_core.arrow import (
    EncodedImageArray,
    EncodedImageType,
    FixedShapeImageTensorArray,
    FixedShapeImageTensorType,
    ImageArray,
    ImageURIArray,
    ImageURIType,
)
from lance_core.errors import InvalidInputError, InvalidTypeError

PIXELS = np.arange(2 * 2 * 3 * 3, dtype=np.uint8).reshape(2, 2, 3, 3)


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    """The path and the file URI of an image."""
    names = [tmp_path / f"{number}.png" for number in range(len(PIXELS))]
    for name, pixels in zip(names, PIXELS, strict=True):
        Image.fromarray(pixels).save(name)
    return [str(names[0]), names[1].as_uri()]


def test_images_are_read_decoded_and_encoded_as_in_pylance(paths: list[str]) -> None:
    uris, theirs = ImageURIArray.from_uris(paths), lance.arrow.ImageURIArray.from_uris(paths)
    files, their_files = uris.read_uris(), theirs.read_uris()
    pixels, their_pixels = files.to_tensor(), their_files.to_tensor()
    again, theirs_again = pixels.to_encoded(), their_pixels.to_encoded()
    for ours, expected in [(uris, theirs), (files, their_files), (pixels, their_pixels), (again, theirs_again)]:
        assert ours.type.extension_name == expected.type.extension_name
        assert ours.type.__arrow_ext_serialize__() == expected.type.__arrow_ext_serialize__()
        assert ours.storage.equals(expected.storage)
        assert ours.to_pylist() == expected.to_pylist()
        assert type(ours).__name__ == type(expected).__name__
        assert type(ours[0]).__name__ == type(expected[0]).__name__
    assert np.array_equal(pixels.to_numpy(), PIXELS)
    assert np.array_equal(pixels[1:].to_numpy(), PIXELS[1:])
    assert tuple(pixels.type.shape) == tuple(their_pixels.type.shape) == (2, 3, 3)
    assert pixels.type.arrow_type == pa.uint8()


def test_image_files_can_be_read_into_large_arrays(paths: list[str]) -> None:
    files = ImageURIArray.from_uris(paths).read_uris(storage_type=pa.large_binary())
    assert files.type == EncodedImageType(pa.large_binary())
    assert files.to_tensor().to_encoded(storage_type=pa.large_binary()).type == EncodedImageType(pa.large_binary())
    with pytest.raises(InvalidInputError, match="must be a binary type, found string"):
        ImageURIArray.from_uris(paths).read_uris(pa.string())


def test_unreadable_image_files_raise_the_same_errors_as_in_pylance(tmp_path: Path) -> None:
    for library in (lance.arrow.ImageURIArray, ImageURIArray):
        with pytest.raises(FileNotFoundError):
            library.from_uris([str(tmp_path / "none.png")]).read_uris()
        with pytest.raises(pa.ArrowInvalid, match="empty scheme"):
            library.from_uris(["relative.png"]).read_uris()


class _OneImage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = self.path == "/1.png"
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write(b"image" if found else b"")

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def test_images_on_the_web_are_downloaded_and_missing_ones_are_null() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _OneImage) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_port}"
        with pytest.warns(UserWarning, match=r"cannot download 'http://.*/none\.png': Not Found") as warned:
            files = ImageURIArray.from_uris([f"{base}/1.png", f"{base}/none.png"]).read_uris()
        server.shutdown()
    assert files.to_pylist() == [b"image", None]
    assert [warning.filename for warning in warned] == [__file__]


def test_image_uri_and_encoded_image_arrays_keep_nulls() -> None:
    uris = ImageURIArray.from_uris(["/a", None])
    assert uris.to_pylist() == ["/a", None]
    files = uris[1:].read_uris()
    assert files.to_pylist() == [None]
    assert "[None]" in repr(files)
    with pytest.raises(InvalidInputError, match="cannot decode null images: 1 of 1 images are null"):
        files.to_tensor()


def test_user_defined_decoders_and_encoders_replace_pillow(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    files = ImageArray.from_array(pa.array([b"a", b"b"]))
    with pytest.raises(InvalidInputError, match="no image decoder is available"):
        files.to_tensor()
    seen = []

    def decode(storage: pa.Array) -> np.ndarray:
        seen.append(storage.type)
        return np.ones((len(storage), 2, 2))

    pixels = files.to_tensor(decoder=decode)
    assert seen == [pa.binary()]
    assert pixels.type == FixedShapeImageTensorType(pa.float64(), (2, 2))
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(np.ones((2, 2, 2)))
    assert files.to_tensor(lambda _: tensors).to_numpy().tolist() == pixels.to_numpy().tolist()
    with pytest.raises(InvalidInputError, match="no image encoder is available"):
        pixels.to_encoded()
    encoded = pixels.to_encoded(lambda images: pa.array([bytes(image.shape) for image in images]))
    assert encoded.to_pylist() == [b"\2\2", b"\2\2"]
    with pytest.raises(TypeError, match="Incompatible storage type"):
        pixels.to_encoded(lambda images: pa.array([b""] * len(images)), pa.large_binary())


def test_images_that_cannot_form_one_tensor_are_refused(tmp_path: Path) -> None:
    for number in (1, 2):
        Image.fromarray(np.zeros((number, 2, 3), np.uint8)).save(tmp_path / f"{number}.png")
    files = ImageURIArray.from_uris(sorted(tmp_path.iterdir())).read_uris()
    with pytest.raises(InvalidInputError, match=r"same shape, found \[\(1, 2, 3\), \(2, 2, 3\)\]"):
        files.to_tensor()
    with pytest.raises(InvalidInputError, match="the array is empty"):
        files[:0].to_tensor()


@pytest.mark.parametrize(
    "images",
    [
        ["a", "b"],
        ("a",),
        pa.array(["a"]),
        pa.array(["a"], pa.large_string()),
        pa.array([b"a"]),
        pa.array([b"a"], pa.large_binary()),
        pa.FixedShapeTensorArray.from_numpy_ndarray(PIXELS),
    ],
)
def test_images_of_each_kind_are_converted_to_the_same_arrays_as_in_pylance(images) -> None:
    ours, theirs = ImageArray.from_array(images), lance.arrow.ImageArray.from_array(images)
    assert type(ours).__name__ == type(theirs).__name__
    assert ours.storage.equals(theirs.storage)
    assert ImageArray.from_array(ours) is ours


@pytest.mark.parametrize("images", [5, pa.array([1])])
def test_image_array_of_values_of_the_wrong_type_is_refused(images) -> None:
    with pytest.raises(InvalidTypeError, match="image URIs must be"):
        ImageArray.from_array(images)


def test_image_types_check_their_storage_types() -> None:
    with pytest.raises(InvalidInputError, match="must be a string type, found binary"):
        ImageURIType(pa.binary())
    with pytest.raises(InvalidInputError, match="must be a binary type, found string"):
        EncodedImageType(pa.string())
    with pytest.raises(InvalidInputError, match="at least one dimension"):
        FixedShapeImageTensorType(pa.uint8(), ())
    with pytest.raises(TypeError, match="require storage type"):
        FixedShapeImageTensorType.__arrow_ext_deserialize__(pa.list_(pa.uint8(), 2), b'{"shape": [3]}')


@pytest.mark.parametrize(
    "dtype",
    [
        ImageURIType(),
        ImageURIType(pa.large_string()),
        EncodedImageType(),
        EncodedImageType(pa.large_binary()),
        FixedShapeImageTensorType(pa.float32(), (4, 5)),
    ],
)
def test_image_types_can_be_pickled(dtype: pa.ExtensionType) -> None:
    again = pickle.loads(pickle.dumps(dtype))
    assert again == dtype
    assert again.storage_type == dtype.storage_type
    assert tuple(getattr(again, "shape", ())) == tuple(getattr(dtype, "shape", ()))


def test_repr_of_an_image_array_shows_the_beginning_of_each_image() -> None:
    assert repr(ImageURIArray.from_uris(["/a"])).endswith("\n['/a']")
    files = EncodedImageArray.from_storage(EncodedImageType(), pa.array([b"x" * 100]))
    assert repr(files).endswith(f"\n[{b'x' * 30!r}]")
    dtype = FixedShapeImageTensorType(pa.uint8(), (1, 2))
    pixels = FixedShapeImageTensorArray.from_storage(dtype, pa.array([[1, 2]], pa.list_(pa.uint8(), 2)))
    assert repr(pixels).endswith("\n[[1, 2]]")

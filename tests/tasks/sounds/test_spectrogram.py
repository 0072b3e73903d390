"""Sounds as pictures: against a naive transform, laws of pictures, and real files of all formats."""

from __future__ import annotations

import cmath
import io
import math
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import scipy.io
from numpy.typing import NDArray
from scipy.io import wavfile

from evodevo.errors import DataError
from evodevo.tasks.images.pixels import decode
from evodevo.tasks.sounds import spectrogram as s

RATE = 16_000


def wav(sound: NDArray[np.generic], rate: int = RATE) -> bytes:
    out = io.BytesIO()
    wavfile.write(out, rate, sound)
    return out.getvalue()


def tone(hertz: float, seconds: float = 0.5, rate: int = RATE, loud: float = 0.5) -> NDArray[np.float32]:
    time = np.arange(round(seconds * rate)) / rate
    return (loud * np.sin(2 * np.pi * hertz * time)).astype(np.float32)


def test_energies_are_those_of_a_transform_written_out() -> None:
    """Sums of squares of a discrete Fourier transform, term by term, over triangles, term by term."""
    rate, sound = 1_000, np.random.default_rng(0).standard_normal(60).astype(np.float32)
    window, step, length = 25, 10, 128
    hann = [0.5 - 0.5 * math.cos(2 * math.pi * n / window) for n in range(window)]
    corners = np.linspace(
        2595 * math.log10(1 + s.LOWEST / 700), 2595 * math.log10(1 + s.HIGHEST / 700), s.BANDS + 2
    ).tolist()
    hertz = [700 * (10 ** (corner / 2595) - 1) for corner in corners]
    energy = s.mel_energy(sound, rate)
    starts = range(0, len(sound) - window + 1, step)
    assert energy.shape == (s.BANDS, len(starts))
    for place, start in enumerate(starts):
        for band in (0, 3, 7, 12):
            total = 0.0
            for k in range(length // 2 + 1):
                term = sum(
                    float(sound[start + n]) * hann[n] * cmath.exp(-2j * math.pi * k * n / length) for n in range(window)
                )
                at = k * rate / length
                left, middle, right = hertz[band : band + 3]
                weight = max(0.0, min((at - left) / (middle - left), (right - at) / (right - middle)))
                twice = 1 if k in (0, length // 2) else 2  # of a real sound the other half is the same
                total += weight * twice * abs(term) ** 2 / (rate * sum(value**2 for value in hann))
            assert energy[band, place] == pytest.approx(total, rel=1e-5, abs=1e-12)


@pytest.mark.slow
def test_windows_are_transformed_in_parts_and_a_minute_of_ultrasound_takes_little_memory() -> None:
    rate = 16_000
    sound = np.random.default_rng(3).standard_normal(rate * 3).astype(np.float32)
    whole = s.mel_energy(sound, rate)
    assert whole.shape[1] == 1 + (len(sound) - 400) // 160 > 4 * s._AT_ONCE
    for place in (0, s._AT_ONCE - 1, s._AT_ONCE, whole.shape[1] - 1):
        alone = s.mel_energy(sound[place * 160 : place * 160 + 400], rate)
        np.testing.assert_array_equal(alone[:, 0], whole[:, place])
    loud = wav(np.random.default_rng(4).integers(0, 256, 60 * 400_000).astype(np.uint8), 400_000)
    tracemalloc.start()
    try:
        assert s.picture(loud, "a.wav").shape == (s.BANDS, s.COLUMNS, 1)
        assert tracemalloc.get_traced_memory()[1] < 2**30
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("hertz", [200.0, 1_000.0, 4_000.0])
def test_a_tone_is_a_line_at_its_frequency_the_highest_at_the_top(hertz: float) -> None:
    pixels = s.picture(wav(tone(hertz)), "a.wav")
    assert pixels.shape == (s.BANDS, s.COLUMNS, 1)
    assert pixels.dtype == np.uint8
    mel = [2595 * math.log10(1 + f / 700) for f in (s.LOWEST, hertz, s.HIGHEST)]
    band = (mel[1] - mel[0]) / (mel[2] - mel[0]) * (s.BANDS + 1) - 1
    brightest = s.BANDS - 1 - pixels[:, s.COLUMNS // 2, 0].argmax()
    assert abs(brightest - band) <= 1.0
    assert pixels.max() == 255


def test_neither_volume_nor_channels_nor_format_count() -> None:
    sound = tone(700) + tone(2_500, loud=0.1)
    plain = s.picture(wav(sound), "a.wav").astype(int)
    assert np.array_equal(s.picture(wav((sound / 8).astype(np.float32)), "a.wav"), plain)
    assert np.array_equal(s.picture(wav(np.stack([sound, sound], 1)), "a.wav"), plain)
    for kind, scale in ((np.int16, 2**15), (np.int32, 2.0**31)):
        whole = np.round(sound * (scale - 1)).astype(kind)
        assert np.abs(s.picture(wav(whole), "a.wav") - plain).max() <= 12, kind  # of rounding, near the floor
    assert s.waveform(wav(np.array([0, 128, 255], np.uint8)), "a.wav")[1].tolist() == [-1.0, 0.0, 127 / 128]


def test_the_sampling_rate_hardly_counts() -> None:
    one, other = (s.picture(wav(tone(440, rate=rate), rate), "a.wav").astype(int) for rate in (16_000, 44_100))
    at = one > 200
    assert at.any()
    assert np.abs(one - other)[at].max() <= 10


def test_a_sound_twice_as_long_has_the_same_columns_stretched() -> None:
    first, second = tone(300, 1.0), tone(3_000, 1.0)
    pixels = s.picture(wav(np.concatenate([first, second])), "a.wav")[..., 0]
    for seconds in (0.2, 4.0):
        again = s.picture(wav(np.concatenate([tone(300, seconds), tone(3_000, seconds)])), "a.wav")[..., 0]
        for half in (slice(4, s.COLUMNS // 2 - 4), slice(s.COLUMNS // 2 + 4, -4)):
            assert np.array_equal(again[:, half].argmax(0), pixels[:, half].argmax(0))


def test_columns_are_means_of_equal_parts() -> None:
    energy = np.random.default_rng(1).random((s.BANDS, 4 * s.COLUMNS))
    assert np.allclose(s.columns_of(energy), energy.reshape(s.BANDS, s.COLUMNS, 4).mean(2))
    few = s.columns_of(energy[:, :3])
    assert few.shape == (s.BANDS, s.COLUMNS)
    assert np.allclose(few[:, [0, -1]], energy[:, [0, 2]])


@pytest.mark.parametrize("samples", [1, 10, 399, 401])
def test_short_sounds_and_silence_are_pictures(samples: int) -> None:
    assert s.picture(wav(np.ones(samples, np.float32)), "a.wav").max() == 255
    assert not s.picture(wav(np.zeros(samples, np.float32)), "a.wav").any()


def test_the_reader_of_images_reads_sounds() -> None:
    data = wav(tone(500))
    assert np.array_equal(decode(data, "a.wav"), s.picture(data, "a.wav"))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (wav(tone(500))[:30], "cannot be read"),
        (wav(tone(500))[:-1000], r"it ends after \d+ of \d+ bytes"),
        (b"RIFF\xff\xff\xff\xffWAVEjunk", "cannot be read"),
        (wav(np.zeros(0, np.float32)), "holds 0 samples"),
        (wav(np.zeros(10, np.float32), 10), "sampling rate is 10 hertz"),
        (wav(np.zeros(61_000, np.float32), 1_000), "lasts 61 seconds, and 60 are read; cut it"),
        (wav(np.array([0.0, np.nan, 1.0], np.float32)), "samples that are no numbers"),
        (wav(np.array([0.0, 1e300, 1e308])), "beyond single precision"),
        (wav(np.full((4, 2), 1.7e308)), "beyond single precision"),
        (wav(np.zeros((10, 65), np.float32)), "65 channels"),
    ],
)
def test_what_is_no_sound_is_a_data_error_with_its_name(data: bytes, reason: str) -> None:
    with pytest.raises(DataError, match=rf"the sound a\.wav cannot be read.*{reason}|{reason}") as caught:
        decode(data, "a.wav")
    assert "a.wav" in str(caught.value)


def test_a_stream_whose_length_nobody_knew_is_read() -> None:
    """As programs write it that print a file: the stated lengths are placeholders."""
    data = bytearray(wav(tone(500)))
    at = data.index(b"data") + 4
    data[4:8], data[at : at + 4] = b"\x24\xf0\xff\x7f", b"\x00\xf0\xff\x7f"
    assert np.array_equal(decode(bytes(data), "a.wav"), s.picture(wav(tone(500)), "a.wav"))


def test_a_missing_byte_of_padding_is_no_fault() -> None:
    data = bytearray(wav(np.arange(101, dtype=np.uint8)))
    whole = decode(bytes(data), "a.wav")
    for more, read in ((1, True), (2, False)):
        data[4:8] = (len(data) - 8 + more).to_bytes(4, "little")
        assert read_or_refused(bytes(data), "a.wav") is read
    data[4:8] = (len(data) - 8 + 1).to_bytes(4, "little")
    assert np.array_equal(decode(bytes(data), "a.wav"), whole)


def read_or_refused(data: bytes, place: str) -> bool:
    """Whether it is a picture; else the error has the name of the file."""
    try:
        pixels = decode(data, place)
    except DataError as error:
        if place not in str(error):
            raise
        return False
    return pixels.shape == (s.BANDS, s.COLUMNS, 1)


def test_damaged_files_are_data_errors_or_pictures() -> None:
    data = bytearray(wav(tone(500, 0.1)))
    rng = np.random.default_rng(2)
    outcomes: set[bool] = set()
    for _ in range(300):
        damaged = bytearray(data)
        for at in rng.integers(0, 60, 3).tolist():
            damaged[at] = int(rng.integers(0, 256))
        damaged[:4], damaged[8:12] = b"RIFF", b"WAVE"
        outcomes.add(read_or_refused(bytes(damaged), "a.wav"))
    assert outcomes == {True, False}


def test_real_files_of_many_formats_are_read_or_refused() -> None:
    """Those with which scipy tests its reader: see its source for where each is from."""
    folder = Path(scipy.io.__file__).parent / "tests" / "data"
    found = sorted(folder.glob("*.wav"))
    if not found:
        pytest.skip("this scipy was installed without its tests' data")
    read = 0
    for path in found:
        read += read_or_refused(path.read_bytes(), path.name)
    assert read >= len(found) // 2

"""The log-mel spectrogram of a wav file, as a grey picture.

A picture has one row per band of frequencies, the highest at the top, and a fixed number of columns that divide the
whole sound, however long it is: sounds of one task need no common length, and what they lose is their tempo. Grey is
the energy in decibels, from the quiet places of the picture (black) to its loudest one (white), so that the volume of
a recording does not count.

This file needs numpy and scipy alone: exports of models hold a copy.

Legend: n samples of a sound, N samples of a window, K frequencies, R windows.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

BANDS = COLUMNS = 64
LOWEST, HIGHEST = 20.0, 8_000.0
"""Frequencies in hertz between which the bands lie; a lower sampling rate leaves the upper bands empty."""
RANGE = 80.0
"""Most decibels between white and black."""
QUIET = 5.0
"""Percentage of the places of a picture that are black."""
WINDOW, HOP = 0.025, 0.010
"""Seconds of a window, and between two."""
MAX_SECONDS = 60.0
RATES = (1_000, 400_000)
MAX_CHANNELS = 64
_BEGINNINGS = (b"RIFF", b"RIFX", b"RF64")
_CUT = re.compile(r"finished at (\d+) bytes, expected (\d+) bytes")
"""scipy's warning of a file that is shorter than it states."""
_UNKNOWN_LENGTH = 0x7FFF0000
"""Bytes from which on the stated length is that of a stream, whose program did not know it."""
_AT_ONCE = 64
"""Windows whose spectra are in memory at a time."""
_PADDED = 4
"""Length of the transform over that of a window: without it the lowest bands lie between two frequencies."""


class UnreadableSoundError(ValueError):
    """Bytes that are no wav file, or one beyond the limits."""


def is_sound(data: bytes) -> bool:
    """Whether a file begins as a wav file does."""
    return data[:4] in _BEGINNINGS and data[8:12] == b"WAVE"


def picture(data: bytes, place: str) -> NDArray[np.uint8]:
    """The picture of a wav file: (``BANDS``, ``COLUMNS``, 1).

    Args:
        data: Bytes of the file: PCM of 8 to 64 bits, or floats; of several channels the mean is taken.
        place: Name of the file, for the message.

    Raises:
        UnreadableSoundError: The bytes are no such file, hold nothing, or more than ``MAX_SECONDS``.
    """
    rate, sound = waveform(data, place)
    energy = columns_of(mel_energy(sound, rate))
    loudest = float(energy.max())
    if loudest <= 0.0:
        return np.zeros((BANDS, COLUMNS, 1), np.uint8)  # silence
    decibels = 10.0 * np.log10(np.maximum(energy / loudest, 10.0 ** (-RANGE / 10.0)))
    quiet = float(np.percentile(decibels, QUIET))
    grey = np.rint(np.clip(1.0 - decibels / quiet, 0.0, 1.0) * 255.0) if quiet < 0.0 else np.full_like(decibels, 255.0)
    return np.ascontiguousarray(grey[::-1, :, None].astype(np.uint8))


def waveform(data: bytes, place: str) -> tuple[int, NDArray[np.float32]]:
    """Sampling rate in hertz, and the mean of the channels, (n,), between -1 and 1 where the file has whole numbers.

    Raises:
        UnreadableSoundError: See ``picture``.
    """
    from scipy.io import wavfile

    try:
        with warnings.catch_warnings(
            record=True
        ) as told:  # also of chunks with titles and the like, which are no fault
            warnings.simplefilter("always")
            rate, sound = wavfile.read(io.BytesIO(data))
    except Exception as error:  # a reader of formats raises what its mistakes are
        raise _unreadable(place, str(error) or type(error).__name__) from None
    for match in (_CUT.search(str(one.message)) for one in told):
        if match and int(match[2]) < _UNKNOWN_LENGTH:
            raise _unreadable(place, f"it ends after {match[1]} of {match[2]} bytes")
    channels = sound[:, None] if sound.ndim == 1 else sound
    if not RATES[0] <= rate <= RATES[1]:
        raise _unreadable(place, f"its sampling rate is {rate:,} hertz; {RATES[0]:,} to {RATES[1]:,} are read")
    if not channels.size or channels.shape[1] > MAX_CHANNELS:
        raise _unreadable(place, f"it holds {channels.shape[0]:,} samples in {channels.shape[1]} channels")
    if len(channels) > MAX_SECONDS * rate:
        raise _unreadable(
            place, f"it lasts {len(channels) / rate:,.0f} seconds, and {MAX_SECONDS:g} are read; cut it into pieces"
        )
    if channels.dtype.kind not in "uif":
        raise _unreadable(place, f"its samples are {channels.dtype}")
    with np.errstate(over="ignore", invalid="ignore"):  # what is no number is told of below
        mono = channels.mean(1, dtype=np.float64)
    if channels.dtype.kind != "f":
        middle, largest = (128.0, 128.0) if channels.dtype == np.uint8 else (0.0, -float(np.iinfo(channels.dtype).min))
        mono = (mono - middle) / largest
    with np.errstate(over="ignore"):
        single = mono.astype(np.float32)
    if not np.isfinite(single).all():
        raise _unreadable(place, "it holds samples that are no numbers, or beyond single precision")
    return int(rate), single


def mel_energy(sound: NDArray[np.float32], rate: int) -> NDArray[np.float64]:
    """Energy in each band and window, (``BANDS``, R), R at least 1."""
    from scipy.signal import get_window
    from scipy.signal import spectrogram as spectra

    window = max(2, round(WINDOW * rate))
    step = max(1, round(HOP * rate))
    short = max(0, window - len(sound))
    padded = np.pad(sound, (short // 2, short - short // 2))  # the window is 0 at its ends
    length = 2 ** math.ceil(math.log2(_PADDED * window))
    hann, triangles, parts = get_window("hann", window), _sparse_bands(rate, length), []
    windows = 1 + (len(padded) - window) // step
    for begin in range(0, windows, _AT_ONCE):  # of a minute at 400 kilohertz all spectra would take gigabytes
        part = padded[begin * step : (min(begin + _AT_ONCE, windows) - 1) * step + window].astype(np.float64)
        _, _, power = spectra(part, rate, hann, noverlap=window - step, nfft=length, detrend=False, mode="psd")
        parts.append(triangles @ power)
    return np.concatenate(parts, 1)


@lru_cache(maxsize=8)
def _sparse_bands(rate: int, length: int) -> Any:
    """``bands`` as a sparse matrix: one number in fifty is not 0, and its product takes one thread."""
    from scipy.sparse import csr_array

    return csr_array(bands(rate, length))


def bands(rate: int, length: int) -> NDArray[np.float64]:
    """Triangles that are evenly spaced in mel, 2595 log10(1 + f / 700), over the frequencies of a transform.

    Args:
        rate: Sampling rate in hertz.
        length: Samples of the transform.

    Returns:
        (``BANDS``, K), the lowest band first; each triangle is 1 at its middle and 0 at its neighbours' middles.
    """
    frequencies = np.fft.rfftfreq(length, 1.0 / rate)
    first, last = (2595.0 * math.log10(1.0 + end / 700.0) for end in (LOWEST, HIGHEST))
    corners = 700.0 * (10.0 ** (np.linspace(first, last, BANDS + 2) / 2595.0) - 1.0)
    below, middle, above = (corners[start : start + BANDS, None] for start in range(3))
    rising = (frequencies - below) / (middle - below)
    falling = (above - frequencies) / (above - middle)
    triangles: NDArray[np.float64] = np.clip(np.minimum(rising, falling), 0.0, None)
    return triangles


def columns_of(energy: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means over ``COLUMNS`` equal parts of the windows, (``BANDS``, ``COLUMNS``); of few windows some are repeated."""
    count = energy.shape[1]
    edges = np.linspace(0, count, COLUMNS + 1)
    first = np.minimum(np.floor(edges[:-1]).astype(np.int64), count - 1)
    last = np.maximum(np.ceil(edges[1:]).astype(np.int64), first + 1)
    sums = np.concatenate([np.zeros((len(energy), 1)), energy.cumsum(1)], 1)
    means: NDArray[np.float64] = np.maximum((sums[:, last] - sums[:, first]) / (last - first), 0.0)
    return means


def _unreadable(place: str, reason: str) -> UnreadableSoundError:
    return UnreadableSoundError(f"the sound {place} cannot be read: {reason.rstrip('.')}.")

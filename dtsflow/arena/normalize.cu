// Pixels as decoded to the elements of a batch, bit for bit as the host writes them:
// y = fl32(fl32(x * a) + b), two roundings and no fused multiply-add, then to nearest even.
//
// It includes no header, so that it compiles wherever a driver is.

struct Half {
  unsigned short bits;
};
struct Bfloat {
  unsigned short bits;
};

static __device__ void store(float y, float *to) { *to = y; }

static __device__ void store(float y, Half *to) {
#ifdef __CUDA_ARCH__
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to->bits) : "f"(y));
#else  // the tests compile this for a host
  to->bits = half_bits(y);
#endif
}

static __device__ void store(float y, Bfloat *to) {
  const unsigned bits = __float_as_uint(y);  // finite: a plan refuses what would overflow
  to->bits = (unsigned short)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

// One thread a pixel and turn. A missing row and the padding of the channels are zero.
template <typename Element>
static __device__ void normalize(const unsigned char *from, const unsigned char *valid,
                                 const float *scale, const float *offset, Element *to,
                                 long long rows, long long row_pixels, long long channels,
                                 long long stored) {
  const long long turn = (long long)gridDim.x * blockDim.x;
  long long pixel = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  for (; pixel < rows * row_pixels; pixel += turn) {
    const unsigned char *const x = from + pixel * channels;
    Element *const out = to + pixel * stored;
    const bool there = valid[pixel / row_pixels];
    for (long long c = 0; c < stored; ++c) {
      out[c] = Element();
      if (there && c < channels) store(__fadd_rn(__fmul_rn((float)x[c], scale[c]), offset[c]), out + c);
    }
  }
}

#define DTSFLOW_NORMALIZE(NAME, ELEMENT)                                                        \
  extern "C" __global__ void NAME(const unsigned char *from, const unsigned char *valid,        \
                                  const float *scale, const float *offset, ELEMENT *to,         \
                                  long long rows, long long row_pixels, long long channels,     \
                                  long long stored) {                                           \
    normalize(from, valid, scale, offset, to, rows, row_pixels, channels, stored);              \
  }

DTSFLOW_NORMALIZE(normalize_fp32, float)
DTSFLOW_NORMALIZE(normalize_fp16, Half)
DTSFLOW_NORMALIZE(normalize_bf16, Bfloat)

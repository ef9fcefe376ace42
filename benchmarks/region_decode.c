/* libjpeg-turbo decoding the windows it is given, and nothing else.
 *
 * The bound that dtsflow's whole path is held against. Each thread reuses one decompressor
 * and one buffer: crop to the window's columns, skip to its first row, decode to its last,
 * stop. Accurate DCT, fancy upsampling, RGB, MARGIN pixels around each window.
 *
 * usage: region_decode FILE THREADS
 * FILE, written by data.py: uint64 images and passes; for each image uint64 offset and
 * size; for each pass and image int32 y, x, height, width; then the JPEG bytes, which the
 * offsets count from. The first pass warms up. Prints one line of JSON.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <jpeglib.h>

enum { MARGIN = 2, MAX_THREADS = 256 };

typedef struct { uint64_t offset, size; } Image;
typedef struct { int32_t y, x, h, w; } Window;

static uint64_t images, passes;
static const Image *image;
static const Window *window;
static const unsigned char *bytes;
static atomic_ullong warm, timed, pixels;
static pthread_barrier_t barrier;

static void fail(const char *what) {
  fprintf(stderr, "region_decode: %s\n", what);
  exit(1);
}

static long clipped(long value, long limit) { return value < 0 ? 0 : value > limit ? limit : value; }

/* One thread's buffer, which only grows; `row` points at its rows. */
typedef struct { unsigned char *pixels; size_t size; JSAMPROW *row; size_t rows; } Buffer;

static void reserve(Buffer *to, size_t rows, size_t stride) {
  if (to->size < rows * stride) to->pixels = realloc(to->pixels, to->size = rows * stride);
  if (to->rows < rows) to->row = realloc(to->row, (to->rows = rows) * sizeof *to->row);
  if (!to->pixels || !to->row) fail("out of memory");
  for (size_t i = 0; i < rows; i++) to->row[i] = to->pixels + i * stride;
}

static void decode(struct jpeg_decompress_struct *c, const Image *from, const Window *at, Buffer *to) {
  jpeg_mem_src(c, bytes + from->offset, from->size);
  jpeg_read_header(c, TRUE);
  c->out_color_space = JCS_RGB;
  c->dct_method = JDCT_ISLOW;
  c->do_fancy_upsampling = TRUE;
  jpeg_start_decompress(c);
  long top = clipped(at->y - MARGIN, c->output_height);
  long bottom = clipped(at->y + at->h + MARGIN, c->output_height);
  JDIMENSION left = clipped(at->x - MARGIN, c->output_width);
  JDIMENSION width = clipped(at->x + at->w + MARGIN, c->output_width) - left;
  jpeg_crop_scanline(c, &left, &width); /* widens to whole blocks */
  reserve(to, bottom - top, (size_t)width * 3);
  if (top) jpeg_skip_scanlines(c, top);
  while ((long)c->output_scanline < bottom)
    jpeg_read_scanlines(c, to->row + (c->output_scanline - top), bottom - c->output_scanline);
  atomic_fetch_add(&pixels, (uint64_t)(bottom - top) * width);
  jpeg_abort_decompress(c);
}

static void *work(void *unused) {
  struct jpeg_decompress_struct c;
  struct jpeg_error_mgr errors; /* the library's own: says what is wrong and exits */
  Buffer buffer = {0};
  c.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&c);
  uint64_t job;
  while ((job = atomic_fetch_add(&warm, 1)) < images)
    decode(&c, &image[job], &window[job], &buffer);
  pthread_barrier_wait(&barrier);
  while ((job = atomic_fetch_add(&timed, 1)) < images * passes)
    decode(&c, &image[job % images], &window[job], &buffer);
  pthread_barrier_wait(&barrier);
  jpeg_destroy_decompress(&c);
  free(buffer.pixels);
  free(buffer.row);
  return unused;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static unsigned char *read_all(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END)) fail("the file of windows cannot be read");
  size_t size = ftell(file);
  unsigned char *all = malloc(size);
  rewind(file);
  if (!all || fread(all, 1, size, file) != size) fail("the file of windows cannot be read");
  fclose(file);
  return all;
}

int main(int count, char **word) {
  int threads = count == 3 ? atoi(word[2]) : 0;
  if (threads < 1 || threads > MAX_THREADS) fail("usage: region_decode FILE THREADS");
  unsigned char *all = read_all(word[1]);
  images = ((uint64_t *)all)[0];
  passes = ((uint64_t *)all)[1];
  image = (const Image *)(all + 16);
  window = (const Window *)(image + images);
  bytes = (const unsigned char *)(window + images * passes);
  atomic_store(&timed, images);
  pthread_barrier_init(&barrier, NULL, threads + 1);
  pthread_t thread[MAX_THREADS];
  for (int i = 0; i < threads; i++) pthread_create(&thread[i], NULL, work, NULL);
  pthread_barrier_wait(&barrier);
  double began = now();
  pthread_barrier_wait(&barrier);
  double seconds = now() - began;
  for (int i = 0; i < threads; i++) pthread_join(thread[i], NULL);
  printf("{\"images\": %llu, \"seconds\": %.6f, \"about\": \"libjpeg-turbo, API %d, %.0f pixels a "
         "window\"}\n",
         (unsigned long long)(images * (passes - 1)), seconds, JPEG_LIB_VERSION,
         (double)pixels / (images * passes));
  free(all);
  return 0;
}

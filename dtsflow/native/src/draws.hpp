// Addressed random numbers for a chunk, and the windows drawn from them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dtsflow {

// Philox4x32-10: `words` receives 4 words for each of `count` counters of 4 words.
void philox(const std::uint32_t *counters, std::size_t count, std::uint32_t key0,
            std::uint32_t key1, std::uint32_t *words);

}  // namespace dtsflow

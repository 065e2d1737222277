import type { TarEntry } from "./tar.js";

/** Directories of the machine that the program runs on; undefined where there are none. */
export interface LocalFiles {
    /** What is below a directory, as entries of an archive with relative names. */
    read(directory: string): AsyncIterable<TarEntry>;
    /** Writes entries below a directory; none of them can leave it. */
    write(directory: string, entries: AsyncIterable<TarEntry>): Promise<void>;
}

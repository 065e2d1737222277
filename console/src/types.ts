// What the server's API answers, as far as the console reads it. specs/lifecycle.yaml is the authority.

export interface Status {
  state: string;
  reason?: string;
  message?: string;
  lastTransitionAt?: string;
}

export interface Sandbox {
  id: string;
  image?: {uri: string};
  snapshotId?: string;
  status: Status;
  metadata?: Record<string, string>;
  entrypoint: string[];
  expiresAt?: string;
  createdAt: string;
}

export interface Pagination {
  page: number;
  pageSize: number;
  totalItems: number;
  totalPages: number;
  hasNextPage: boolean;
}

export interface Page<T> {
  items: T[];
  pagination?: Pagination;
}

export interface Snapshot {
  id: string;
  sandboxId: string;
  name?: string;
  status: Status;
  createdAt: string;
  sizeBytes?: number;
  frozenMs?: number;
}

export interface Image {
  id: string;
  names: string[];
  size: number;
  layers: number;
  createdAt: string;
  lastUsedAt: string;
  platform: {os: string; arch: string; variant?: string};
  inUse: boolean;
}

export interface Volume {
  name: string;
  createdAt: string;
  sizeBytes: number | null;
  usedBytes: number | null;
  usedBy: string[];
}

export interface Capacity {
  bufferMin: number;
  bufferMax: number;
  poolMin: number;
  poolMax: number;
}

export interface Pool {
  name: string;
  capacitySpec: Capacity;
  status: {total: number; allocated: number; available: number; revision: string; message?: string};
  createdAt: string;
}

export interface Tenant {
  name: string;
  createdAt: string;
  quota: Record<string, string | number | null | undefined>;
  usage: {sandboxes: number; cpuMillicores: number; memoryBytes: number; diskBytes: number};
}

export interface FileInfo {
  path: string;
  type: 'file' | 'directory' | 'symlink' | 'other';
  size: number;
  modified_at: string;
  owner: string;
  group: string;
  mode: number;
}

export interface Metrics {
  cpu_count: number;
  cpu_used_pct: number;
  mem_total_mib: number;
  mem_used_mib: number;
  timestamp: number;
}

export interface Rule {
  action?: string;
  target: string;
  protocol?: string | null;
  ports?: (number | string)[] | null;
}

export interface Policy {
  defaultAction?: string;
  egress?: Rule[] | null;
}

export interface CodeEvent {
  type: string;
  text?: string;
  execution_count?: number;
  execution_time?: number;
  results?: Record<string, string>;
  error?: {ename: string; evalue: string; traceback: string[]};
  display?: {id: string; update: boolean};
}
